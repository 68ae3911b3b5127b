"""Random SELECTs over three tables, for the differential test."""

TABLES = """
CREATE TABLE item (id bigint PRIMARY KEY, kind int, small smallint, price numeric(12,2) NOT NULL, rate numeric(6,4), name text COLLATE "C", label varchar(20) COLLATE "C",
    code char(4), sold date, at timestamp, seen timestamptz, ok boolean, weight float8, ref uuid, whole numeric(38,0), fine numeric(38,30), odd numeric(10,2));
CREATE TABLE kind (id int PRIMARY KEY, title text NOT NULL, parent int, share numeric(5,3), code char(4) NOT NULL, since date NOT NULL);
CREATE TABLE edge (id int PRIMARY KEY, sold date, at timestamp, seen timestamptz, weight float8, whole numeric(38,0), word text COLLATE "C", code char(4), free bpchar);
"""
COLUMNS = {
    "item": {"int8": ["id"], "int4": ["kind"], "int2": ["small"], "numeric": ["price", "rate"], "text": ["name", "label"], "bpchar": ["code"], "date": ["sold"],
             "timestamp": ["at"], "timestamptz": ["seen"], "bool": ["ok"], "float8": ["weight"], "uuid": ["ref"]},
    "edge": {"int4": ["id"], "numeric": ["whole"], "text": ["word"], "bpchar": ["code", "free"], "date": ["sold"], "timestamp": ["at"], "timestamptz": ["seen"], "float8": ["weight"]},
    "kind": {"int4": ["id", "parent"], "text": ["title"], "numeric": ["share"], "bpchar": ["code"], "date": ["since"]},
}
WORDS = ["a", "ab", "abc", "b", "B", "", "it''s", "x y", "z_%", "é", "a ", "%b", "ä\\\\c"]
INTS = ["0", "1", "2", "3", "7", "-1", "100"]
NUMBERS = ["0", "0.5", "1.00", "2.125", "-3.10", "10", "100.0"]
DATES = ["2024-01-31", "2024-02-29", "2023-12-31", "2000-01-01"]
# Values at the ends of their types, of the table edge alone: among others they would make most queries fail.
FAR_DATES = ["infinity", "-infinity", "4713-01-01 BC", "0044-03-15 BC", "0001-01-01", "9999-12-31", "294276-12-31", "5874897-12-31"]
FAR_TIMES = ["infinity", "-infinity", "4713-01-01 00:00:00 BC", "0044-03-15 12:00:00 BC", "0001-01-01 00:00:00", "1999-12-31 23:59:59.999999", "294246-12-31 23:59:59.999999"]
FAR_WEIGHTS = ["Infinity", "-Infinity", "NaN", "-0", "0", "1e-308", "5e-324", "1.7976931348623157e308"]
LONG = ["0", "1", "-1", "99999999999999999999999999999999999999", "-10000000000000000000", "9223372036854775808"]
ORDERED = ["int4", "int8", "numeric", "text", "date", "timestamp", "bpchar"]


def rows(r):
    """Statements that fill the tables."""
    def word():
        return "'" + r.choice(WORDS) + "'"

    def maybe(value):
        return "NULL" if r.random() < 0.15 else value

    kinds = [f"({n}, {word()}, {maybe(str(r.randint(0, 6)))}, {maybe(str(r.randint(-9, 9)) + r.choice(['', '.5', '.125']))}, '{r.choice(['a', 'ab', 'abcd', ''])}', "
             f"'{r.choice(DATES)}')" for n in range(1, 7)]
    items = [f"({n}, {maybe(str(r.randint(0, 7)))}, {maybe(str(r.randint(-3, 3)))}, {r.randint(-500, 5000) / 100:.2f}, {maybe(f'{r.randint(-20000, 20000) / 10000:.4f}')}, "
             f"{maybe(word())}, {maybe(word())}, {maybe(repr(r.choice(['a', 'ab', 'abcd', '', 'b'])))}, {maybe(repr(r.choice(DATES)))}, "
             f"{maybe(repr(r.choice(DATES) + r.choice([' 00:00:00', ' 12:34:56.789', ' 23:59:59'])))}, {maybe(repr(r.choice(DATES) + r.choice([' 00:00:00+00', ' 12:34:56+02'])))}, "
             f"{maybe(r.choice(['true', 'false']))}, {maybe(r.choice(['0', '1.5', '-2.25', '1e10']))}, {maybe(repr(f'00000000-0000-0000-0000-00000000000{n % 4}'))}, "
             # Numbers of many digits, and a NaN: of its table nothing but the column is not mirrored.
             f"{n % 4 * (1 if n < 30 else 10 ** 37)}, {n % 4}.{'0' * 29}{int(n % 5 == 0)}, {repr('NaN') if n == 7 else '1.50'})" for n in range(1, 61)]
    edges = [f"({n}, {maybe(repr(r.choice(FAR_DATES)))}, {maybe(repr(r.choice(FAR_TIMES)))}, {maybe(repr(r.choice(FAR_TIMES).replace(' BC', '+00 BC')))}, {maybe(repr(r.choice(FAR_WEIGHTS)))}, "
             f"{maybe(r.choice(LONG))}, {maybe(word())}, {maybe(repr(r.choice(['a', 'ab', 'abcd', ''])))}, {maybe(repr(r.choice(['a', 'ab  ', 'abcdefg', ''])))})" for n in range(1, 31)]
    kind, item, edge = (f"INSERT INTO {table} VALUES {', '.join(of)}" for table, of in (("kind", kinds), ("item", items), ("edge", edges)))
    return [kind, f"{item}; {edge}"]


# Each was answered otherwise once. All are answered now, or refused.
ONCE_WRONG = [
    "SELECT CASE WHEN false THEN count(*) ELSE 0 END FROM item", "SELECT coalesce(7, max(id)) FROM item WHERE false", "SELECT coalesce(7, max(id)) FROM item HAVING count(*) > 99",
    "SELECT k.id, (SELECT CASE WHEN true THEN 1 ELSE count(*) END FROM item i WHERE i.kind = k.id) FROM kind k",
    "SELECT id FROM kind k WHERE EXISTS (SELECT 1 FROM item i WHERE i.kind = k.id AND i.id < 4 HAVING count(*) < 3)",
    "SELECT id FROM kind k WHERE NOT EXISTS (SELECT sum(price) FROM item i WHERE i.kind = k.id AND i.id < 4)",
    "SELECT id FROM kind k WHERE id > 99 OR EXISTS (SELECT max(price) FROM item i WHERE i.kind = k.id AND i.id < 4)",
    "SELECT id, (SELECT DISTINCT count(*) FROM item i WHERE i.kind = k.id AND i.id < 4) FROM kind k", "SELECT id, (SELECT count(*) FROM item i WHERE i.kind = k.id AND i.id < 4 ORDER BY 1) FROM kind k",
    "SELECT id FROM kind k WHERE 0 IN (SELECT count(*) FROM item i WHERE i.kind = k.id AND i.id < 4)", "SELECT id FROM kind k WHERE EXISTS (SELECT FROM item i WHERE i.kind = k.id OFFSET 3)",
    "WITH w AS (SELECT id FROM item LIMIT 5) SELECT count(*) FROM w a JOIN w b USING (id)", "WITH v AS (SELECT id FROM item LIMIT 5), w AS (SELECT id FROM v) SELECT count(*) FROM w a JOIN w b USING (id)",
    "SELECT count(*) FROM (SELECT DISTINCT name COLLATE ci FROM item) s", "SELECT count(*) FROM (SELECT 1 FROM item GROUP BY name COLLATE ci) s",
    "SELECT count(*) FROM (SELECT name COLLATE ci FROM item UNION SELECT title FROM kind) s", "SELECT id, count(*) OVER (PARTITION BY name COLLATE ci) FROM item",
    "SELECT id FROM (SELECT id FROM item ORDER BY price DESC, id) s LIMIT 10", "SELECT id, row_number() OVER () FROM (SELECT id FROM item ORDER BY price DESC, id) s",
    "WITH w AS (SELECT id FROM item ORDER BY price DESC, id) SELECT id FROM w LIMIT 10",
    "SELECT id, CASE WHEN small <> 0 THEN 10 / small > 1 ELSE false END FROM item", "SELECT id FROM item WHERE CASE WHEN small = 0 THEN true ELSE 10 / small > 1 END",
    "SELECT count(*) FILTER (WHERE CASE WHEN small <> 0 THEN 10 / small > 1 ELSE false END) FROM item", "SELECT id FROM item WHERE CASE WHEN small <> 0 THEN 10 / small ELSE 0 END > 1",
    "SELECT kind, count(*) FROM item GROUP BY kind HAVING CASE WHEN min(small) <> 0 THEN 10 / min(small) > 0 ELSE false END",
    "SELECT a.id, b.id FROM item a LEFT JOIN kind b ON a.kind = b.id AND CASE WHEN a.small <> 0 THEN 10 / a.small > 0 ELSE false END",
    "SELECT kind, sum(10 / small) FILTER (WHERE small <> 0) FROM item GROUP BY kind", "SELECT id, sum(10 / small) FILTER (WHERE small <> 0) OVER (ORDER BY id) FROM item",
    "SELECT kind, count(DISTINCT 10 / small) FILTER (WHERE small <> 0), bool_or(10 / small > 1) FILTER (WHERE small <> 0) FROM item GROUP BY kind",
    "SELECT kind, sum(price / small) FILTER (WHERE small <> 0), avg(rate / small) FILTER (WHERE small <> 0), max(price / small) FILTER (WHERE small <> 0) FROM item GROUP BY kind",
    "SELECT a.id, b.id FROM item a JOIN item b ON a.whole = b.fine", "SELECT id, whole > fine, fine >= whole, whole = price, fine < 1, whole > 0.5 FROM item", "SELECT id, whole, fine FROM item",
    "SELECT id, at < sold + 107000000, sold + 107000000 > at, at = sold + 107000000 FROM item", "SELECT a.id, b.id FROM item a JOIN item b ON a.sold + 107000000 = b.at",
]


def is_sorted(sql):
    """Whether a query of the generator's gives its rows in the order of the first column."""
    return " o ORDER BY 1" in sql


class Generator:
    """One query after the other from one random source. `edge`: also over the table of that name."""

    def __init__(self, r, edge=False):
        self.r = r
        self.edge = edge
        self.far = False  # whether the query reads the table edge

    def column(self, scope, of):
        found = [f"{alias}.{name}" for alias, table in scope for name in COLUMNS[table].get(of, [])]
        return self.r.choice(found) if found else None

    def literal(self, of):
        r = self.r
        if self.far and of in ("date", "timestamp", "timestamptz", "float8", "numeric") and r.random() < 0.5:
            return f"'{r.choice({'date': FAR_DATES, 'float8': FAR_WEIGHTS, 'numeric': LONG}.get(of, FAR_TIMES))}'::{of}"
        return {"int2": lambda: r.choice(INTS) + "::smallint", "int4": lambda: r.choice(INTS), "int8": lambda: r.choice(INTS) + "::bigint", "numeric": lambda: r.choice(NUMBERS) + "::numeric",
                "text": lambda: "'" + r.choice(WORDS) + "'::text", "bpchar": lambda: "'" + r.choice(["a", "ab", "abcd", "abcde", "a   "]) + "'::bpchar",
                "date": lambda: f"date '{r.choice(DATES)}'", "timestamp": lambda: f"timestamp '{r.choice(DATES)} {r.choice(['00:00', '12:34:56'])}'",
                "timestamptz": lambda: f"timestamptz '{r.choice(DATES)} 00:00+00'", "bool": lambda: r.choice(["true", "false"]), "float8": lambda: r.choice(["0", "1.5", "-2.25"]) + "::float8",
                "uuid": lambda: f"'00000000-0000-0000-0000-00000000000{r.randint(0, 4)}'::uuid",
                "interval": lambda: f"interval '{r.choice(['1 day', '-3 months', '26 hours', '0', '1 day 00:00:00.5'])}'"}[of]()

    def value(self, scope, of, depth):
        """An expression of a type."""
        r = self.r
        if of == "interval" and r.random() < 0.8:
            time = r.choice(["timestamp", "timestamptz"])
            column = self.column(scope, time) or f"{self.column(scope, 'date')}::{time}"
            return f"({column} - {r.choice([self.column(scope, time) or column, self.literal(time)])})"
        if depth <= 0 or r.random() < 0.3:
            return (self.column(scope, of) if r.random() < 0.75 else None) or (self.literal(of) if r.random() < 0.95 else f"NULL::{of}")
        v = lambda of: self.value(scope, of, depth - 1)  # noqa: E731
        roll = r.random()
        if roll < 0.12:
            return f"CASE WHEN {self.condition(scope, depth - 1)} THEN {v(of)} ELSE {v(of)} END"
        if roll < 0.2:
            return f"coalesce({v(of)}, {v(of)})"
        if roll < 0.25 and of not in ("float8",):
            return f"nullif({v(of)}, {v(of)})"
        if of in ("int4", "int8", "numeric"):
            other = r.choice(["int2", "int4"] if of == "int4" else ["int8", "int4"] if of == "int8" else ["numeric", "int4"])
            return r.choice([lambda: f"({v(of)} {r.choice('+-*')} {v(other)})", lambda: f"({v(of)} / nullif({v(other)}, 0))", lambda: f"({v(of)} % nullif({v(other)}, 0))", lambda: f"(- {v(of)})",
                             lambda: f"abs({v(of)})", (lambda: r.choice([f"round({v(of)}, {r.randint(0, 5)})", f"trunc({v(of)}, {r.randint(0, 5)})", f"{r.choice(['ceil', 'floor', 'round'])}({v(of)})"])) if of == "numeric" else (lambda: f"length({v('text')})::{of}"),
                             (lambda: f"{v('numeric')}::numeric(20,{r.randint(0, 4)})") if of == "numeric" else lambda: f"({v('date')} - {v('date')})::{of}",
                             (lambda: r.choice([f"{v('int4')}::numeric", f"extract({r.choice(['epoch', 'second'])} FROM {v(r.choice(['timestamp', 'interval']))})", f"extract(epoch FROM {v('date')})"])) if of == "numeric" else (lambda: r.choice([f"extract({r.choice(['year', 'month', 'dow'])} FROM {v('date')})::{of}", f"extract({r.choice(['day', 'hour', 'minute'])} FROM {v('interval')})::{of}"]))])()
        if of == "text":
            return r.choice([lambda: f"({v('text')} || {v('text')})", lambda: f"substring({v('text')} FROM {r.randint(-1, 3)} FOR {r.randint(0, 3)})", lambda: f"trim({v('text')})",
                             lambda: f"{v('int4')}::text", lambda: f"{v('numeric')}::text", lambda: f"{v('bpchar')}::text", lambda: f"replace({v('text')}, 'a', 'bb')", lambda: f"left({v('text')}, 2)", lambda: f"{r.choice(['upper', 'lower'])}({v('text')})"])()
        if of == "date":
            return r.choice([lambda: f"({v('date')} + {r.randint(-40, 40)})", lambda: f"{v('timestamp')}::date"])()
        if of == "timestamp":
            return r.choice([lambda: f"({v('date')} + interval '{r.randint(-14, 14)} months {r.randint(-3, 3)} days')", lambda: f"date_trunc('{r.choice(['month', 'hour', 'week'])}', {v('timestamp')})",
                             lambda: f"{v('date')}::timestamp", lambda: f"date_trunc('{r.choice(['month', 'quarter', 'week'])}', {v('date')})::timestamp", lambda: f"({v('timestamptz')} AT TIME ZONE 'UTC')"])()
        if of == "timestamptz":
            return r.choice([lambda: f"({v('timestamp')} AT TIME ZONE 'utc')", lambda: f"date_trunc('{r.choice(['month', 'day'])}', {v('timestamptz')}, 'UTC')"])()
        if of == "interval":
            return f"({v('timestamp')} - {v('timestamp')})"
        if of == "bool":
            return f"({self.condition(scope, depth - 1)})"
        return self.column(scope, of) or self.literal(of)

    def condition(self, scope, depth):
        r = self.r
        v = lambda of: self.value(scope, of, depth - 1)  # noqa: E731
        roll = r.random()
        if depth > 0 and roll < 0.3:
            return f"({self.condition(scope, depth - 1)} {r.choice(['AND', 'OR'])} {self.condition(scope, depth - 1)})"
        if depth > 0 and roll < 0.36:
            return f"NOT ({self.condition(scope, depth - 1)})"
        of = r.choice(ORDERED + ["timestamptz", "bool", "float8", "uuid", "interval"])
        if roll < 0.7:
            return f"{v(of)} {r.choice(['=', '<>', '<', '<=', '>', '>='])} {v(of)}"
        return r.choice([lambda: f"{v(of)} IS {r.choice(['', 'NOT '])}NULL", lambda: f"{v(of)} IS {r.choice(['', 'NOT '])}DISTINCT FROM {v(of)}",
                         lambda: f"{v('text')} {r.choice(['', 'NOT '])}LIKE '{r.choice(WORDS)}%'", lambda: f"{v('bpchar')} LIKE 'a%'", lambda: f"{v('text')} {r.choice(['', 'NOT '])}ILIKE '{r.choice(WORDS)}%'",
                         lambda: f"{v('int4')} {r.choice(['', 'NOT '])}IN ({', '.join(r.choice(INTS) for _ in range(3))})", lambda: f"{v('bpchar')} IN ('a', 'ab', 'abcde')",
                         lambda: f"{v('date')} BETWEEN {v('date')} AND {v('timestamp')}", lambda: f"({self.condition(scope, depth - 1)}) IS {r.choice(['TRUE', 'NOT FALSE', 'UNKNOWN'])}"])()

    def subcondition(self, scope):
        """A condition with a subquery."""
        r = self.r
        table, alias = r.choice(list(COLUMNS) if self.far else ["item", "kind"]), f"q{r.randint(0, 999)}"
        inner = [(alias, table)]
        of = r.choice(["int4", "text", "numeric", "date"])
        column = self.column(inner, of) or self.literal(of)
        link = f" AND {self.column(inner, 'int4')} = {self.column(scope, 'int4')}" if r.random() < 0.5 else ""
        where = f"WHERE {self.condition(inner, 1)}{link}"
        not_ = r.choice(["", "NOT "])
        if r.random() < 0.3:
            return self.of_one_row(scope, table, inner, where)
        return r.choice([lambda: f"{not_}EXISTS (SELECT * FROM {table} {alias} {where}{r.choice(['', '', ' LIMIT 1', ' OFFSET 2'])})", lambda: f"{self.value(scope, of, 1)} {not_}IN (SELECT {column} FROM {table} {alias} {where})",
                         lambda: f"{self.value(scope, of, 1)} > (SELECT {r.choice(['min', 'max'])}({column}) FROM {table} {alias} {where})",
                         lambda: f"{self.value(scope, 'numeric', 1)} < (SELECT {r.choice(['avg', 'sum'])}({self.value(inner, 'numeric', 1)}) FROM {table} {alias} {where})"])()

    def of_one_row(self, scope, table, inner, where):
        """A condition with a subquery that has a row of no rows, or seems to."""
        r = self.r
        from_, few = f"FROM {table} {inner[0][0]} {where}", r.randint(0, 3)
        total = f"sum({self.column(inner, 'numeric')})"
        return r.choice([lambda: f"{r.choice(['', 'NOT '])}EXISTS (SELECT {total} {from_}{r.choice(['', f' HAVING count(*) < {few}', ' OFFSET 1', ' LIMIT 0'])})",
                         lambda: f"{few} {r.choice('=<>')} (SELECT {r.choice(['', 'DISTINCT '])}{r.choice(['count(*)', f'coalesce({total}, 1)'])} {from_}{r.choice(['', '', ' ORDER BY 1', f' HAVING count(*) < {few}'])})",
                         lambda: f"{few} {r.choice(['', 'NOT '])}IN (SELECT count(*) {from_})", lambda: f"EXISTS (SELECT 1 {from_} GROUP BY {self.column(inner, 'int4')} HAVING count(*) > {few})"])()

    def aggregate(self, scope):
        r = self.r
        v = lambda of: self.value(scope, of, 2)  # noqa: E731
        filter_ = f" FILTER (WHERE {self.condition(scope, 1)})" if r.random() < 0.2 else ""
        number = r.choice(["int4", "int8", "numeric", "numeric"])
        return r.choice([lambda: "count(*)", lambda: f"count({r.choice(['', 'DISTINCT '])}{v(r.choice(['int4', 'text', 'numeric']))})", lambda: f"sum({v(number)})", lambda: f"avg({v(number)})",
                         lambda: f"{r.choice(['min', 'max'])}({v(r.choice(['int4', 'text', 'date', 'numeric', 'timestamp']))})", lambda: f"bool_or({v('bool')})",
                         lambda: f"{r.choice(['variance', 'var_pop', 'stddev', 'stddev_pop'])}({v(number)})", lambda: f"{r.choice(['min', 'max'])}({v('interval')})",
                         lambda: self.ordered_aggregate(scope)])() + filter_

    def ordered_aggregate(self, scope):
        """An aggregate whose rows have an order. Rows that are equal in it have the same value."""
        r = self.r
        v = lambda of: self.value(scope, of, 1)  # noqa: E731
        value, way, part = v("text"), r.choice(["", " DESC", " NULLS FIRST"]), r.choice(["0", "0.25", "0.5", "0.9", "1"])
        of = r.choice(["int4", "numeric", "date", "timestamp", "float8"])
        return r.choice([lambda: f"string_agg({value}, '{r.choice([', ', '', 'é'])}' ORDER BY {value}{way})", lambda: f"string_agg({value}, ',' ORDER BY {v('int4')}{way}, {value})",
                         lambda: f"string_agg(DISTINCT {value}, ',' ORDER BY {value}{way})", lambda: f"percentile_disc({part}) WITHIN GROUP (ORDER BY {v(of)}{way})",
                         lambda: f"percentile_cont({part}) WITHIN GROUP (ORDER BY {v(r.choice(['float8', 'int4', 'numeric']))}{way})"])()

    def source(self):
        """FROM, and its scope."""
        r = self.r
        roll = r.random()
        if self.far and roll < 0.7:
            return r.choice([("edge e", [("e", "edge")]), ("edge e JOIN item i ON i.id = e.id", [("e", "edge"), ("i", "item")]),
                             ("edge e LEFT JOIN edge f ON e.id = f.id + 1", [("e", "edge"), ("f", "edge")])])
        if roll < 0.45:
            return "item i", [("i", "item")]
        if roll < 0.6:
            return "kind k", [("k", "kind")]
        scope = [("i", "item"), ("k", "kind")]
        if roll < 0.7:
            return "item i, kind k", scope
        return f"item i {r.choice(['JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN'])} kind k ON k.id = i.kind", scope

    def where(self, scope):
        r = self.r
        parts = [self.condition(scope, 2)] if r.random() < 0.6 else []
        if r.random() < 0.3:
            parts.append(self.subcondition(scope))
        return " WHERE " + f" {r.choice(['AND', 'OR'])} ".join(parts) if parts else ""

    def plain(self, types):
        source, scope = self.source()
        distinct = "DISTINCT " if self.r.random() < 0.1 else ""
        columns = ", ".join(f"{self.value(scope, of, 2)} AS x{n}" for n, of in enumerate(types))
        return f"SELECT {distinct}{columns} FROM {source}{self.where(scope)}"

    def grouped(self):
        r = self.r
        source, scope = self.source()
        keys = [self.value(scope, of, 1) for of in r.sample(["int4", "text", "bool", "date"], r.randint(0, 2))]
        keys = [key for key in keys if any(f"{alias}." in key for alias, _ in scope)]
        having = f" HAVING count(*) > {r.randint(0, 2)}" if r.random() < 0.3 else ""
        if having and r.random() < 0.3:
            having += f" AND {self.aggregate(scope)} IS NOT NULL"
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        columns = keys + [self.aggregate(scope) for _ in range(r.randint(1, 3))]
        if r.random() < 0.15:  # nothing but an aggregate that the planner computes away
            columns = keys + [f"CASE WHEN {r.choice(['true', 'false'])} THEN {r.randint(0, 9)} ELSE {r.choice(['count(*)', 'max(1)'])} END"]
        if r.random() < 0.3:
            columns.append(f"sum({self.value(scope, 'numeric', 1)}) / nullif(count(*), 0)")
        named = ", ".join(f"{c} AS x{n}" for n, c in enumerate(columns))
        return f"SELECT {named} FROM {source}{self.where(scope)}{group}{having}"

    def in_order(self):
        """Rows that are cut or numbered in the order of a subquery, or of a WITH query."""
        r = self.r
        inner = f"SELECT id, {r.choice(['kind', 'small', 'price'])} AS x FROM item ORDER BY {r.choice(['price DESC, id', 'id', 'id DESC'])}{r.choice(['', ' LIMIT 9'])}"
        if r.random() < 0.3:
            return f"WITH w AS (SELECT id, kind AS x FROM item{r.choice(['', ' ORDER BY id LIMIT 7', ' LIMIT 7'])}) SELECT count(*) FROM w a JOIN w b USING (id)"
        if r.random() < 0.5:
            return f"SELECT id, row_number() OVER ({r.choice(['', 'PARTITION BY x', 'ORDER BY id', 'PARTITION BY x ORDER BY id'])}) FROM ({inner}) s"
        outer = f"SELECT id, x FROM ({inner}) s{r.choice(['', ' WHERE id % 2 = 0'])}"
        return f"{outer}{r.choice(['', ' ORDER BY id'])} LIMIT {r.randint(1, 9)}{r.choice(['', ' OFFSET 3'])}"

    def query(self):
        r = self.r
        self.far = self.edge and r.random() < 0.4
        types = [r.choice(ORDERED + ["bool", "int4", "interval", *(["timestamptz", "float8"] if self.far else [])]) for _ in range(r.randint(1, 4))]
        roll = r.random()
        if roll < 0.45:
            sql = self.plain(types)
        elif roll < 0.75:
            sql = self.grouped()
        elif roll < 0.85:
            sql = f"{self.plain(types)} {r.choice(['UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'])} {self.plain(types)}"
        elif roll < 0.88:
            sql = self.in_order()
        elif roll < 0.94:
            sql = f"WITH w AS ({self.plain(types)}) SELECT a.x0, b.x0 AS y FROM w a JOIN (SELECT count(*) AS n, max(x0) AS x0 FROM w) b ON {r.choice(['true', 'a.x0 = b.x0'])}"
        else:
            over = f"(PARTITION BY i.kind ORDER BY i.id{r.choice(['', ' DESC'])})"
            id_ = r.choice(["i.id, ", "DISTINCT "])
            sql = f"SELECT {id_}{r.choice(['row_number()', 'rank()', 'sum(i.price)', 'count(*)', 'max(i.small)', 'lag(i.name)', 'lead(i.price, 2)', 'lag(i.price / 3, 0)'])} OVER {over} AS x FROM item i{self.where([('i', 'item')])}"
        if r.random() < 0.2:
            sql = f"SELECT * FROM ({sql}) o ORDER BY {r.randint(1, 1)}{r.choice(['', ' DESC', ' NULLS FIRST'])}"
        return sql
