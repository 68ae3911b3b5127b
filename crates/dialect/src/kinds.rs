//! Kinds of constructs that stay with PostgreSQL. The table of docs/user/analytics-refused.md is
//! made of them: a refusal names its kind, so none is missing there.

macro_rules! kinds {
    ($($kind:ident: $constructs:literal, $reason:literal;)*) => {
        /// A kind of constructs that the worker would compute otherwise, or that is not translated.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $(#[doc = $constructs] $kind,)* }

        impl Kind {
            /// All of them, in the order of the page.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// Their constructs, and why they are refused, for people.
            pub fn words(self) -> (&'static str, &'static str) {
                match self { $(Kind::$kind => ($constructs, $reason),)* }
            }
        }
    };
}

kinds! {
    View: "views in `chainify.query_at`; views with `security_barrier`", "the rights of their owner would count: write their query, or ask with `chainify.analytics`; functions of the query must not see hidden rows";
    Function: "functions, operators, casts by functions, aggregates and window functions that `chainify.analytics_functions` does not list", "the worker might compute them otherwise. Regular expressions depend on the locale. `sum`, `avg` and `stddev` of `real` and `double precision` depend on the order of the rows. Volatile functions, functions like `now()`, and functions of your own that are not immutable would see another moment than the block";
    Field: "`extract` and `date_trunc` of a field that is not constant, or that the type does not have", "not translated";
    TimeZone: "casts between `timestamptz` and `date` or `timestamp`, `extract` and `date_trunc` of `timestamptz`, unless `TimeZone` is UTC; `AT TIME ZONE` of another zone", "the worker computes in UTC";
    Letters: "`upper`, `lower` and `ILIKE` under another collation than \"C\" or \"C.UTF-8\"", "letters are the operating system's";
    Aggregate: "aggregates of an outer query, with `DISTINCT` where the worker has none, or with `ORDER BY` but for `string_agg`", "not translated";
    Ordered: "`string_agg` without `ORDER BY`, or with a separator that is not constant; percentiles of texts, or at a part that is not a constant from 0 to 1", "the order of the rows would count, or not translated. Of numbers with different digits behind the point, any may be shown";
    Column: "columns of types that are not mirrored", "the worker does not have them ([types](../operator/analytics.md))";
    Type: "values of other types than columns may have", "the worker does not have them";
    Row: "rows as values, and system columns", "not translated";
    Cast: "casts to another type that no function does, but those of whole numbers, `numeric` and `uuid` to `text`", "the worker might write a value otherwise";
    Key: "`GROUP BY`, `DISTINCT`, `count(DISTINCT …)` and set operations over floats, over `char` without a length, or over numbers with different digits behind the point", "equal values have several texts, and any may be shown";
    TextOrder: "text compared by `<`, ordered, or in `min` and `max`, under another collation than \"C\" or \"C.UTF-8\"", "its order is the operating system's";
    Nondeterministic: "texts under a collation that is not deterministic", "the worker tells all texts apart";
    Value: "constants of dates and times that are infinite, before Christ or beyond the year 9999, and of numbers that are NaN or infinite", "the worker does not read them";
    LongTexts: "text constants of more than 32 KiB together, outside of comparisons and functions", "the worker may repeat them for each row";
    Parameter: "a parameter whose value is not known yet", "PostgreSQL answers until it is";
    Extreme: "`GREATEST` and `LEAST` of floats, of `char`, or of numbers with different digits behind the point", "not translated";
    WithTwice: "`LIMIT`, `OFFSET` or window functions in a `WITH` query that is used twice", "the worker evaluates it for each use";
    SortedSubquery: "`LIMIT`, `OFFSET` or a window without `ORDER BY` over a sorted subquery", "the worker keeps the order of the outer query alone";
    Correlated: "aggregates in `EXISTS`, `IN` or a derived table that depend on the rows around", "an aggregate has a row of no rows as well";
    InOutside: "`IN (SELECT …)` outside of a condition", "its NULL would be lost";
    Array: "`ANY` and `ALL` of an array that is not constant, is NULL, or has several dimensions", "not translated";
    Subquery: "`ALL (SELECT …)`, `ARRAY (SELECT …)`, `IN (SELECT …)` of several columns, subqueries of several columns", "not translated";
    SetOperation: "`INTERSECT ALL`, `EXCEPT ALL`, set operations of different types", "not translated";
    From: "`WITH RECURSIVE`, `LATERAL`, functions, `VALUES` and `TABLESAMPLE` in FROM, `ONLY` of a partitioned table, a relation that is gone", "not translated";
    Clause: "`GROUPING SETS`, `CUBE`, `ROLLUP`, `DISTINCT ON`, `FETCH … WITH TIES`, `ORDER BY … USING`, functions that return rows among the columns, a query without columns", "not translated";
    Frame: "window frames with bounds other than `UNBOUNDED` and `CURRENT ROW`, or with `EXCLUDE`; `lag` and `lead` by a number of rows that is not a constant from 0 on", "not translated";
    Implied: "columns that stand neither in `GROUP BY` nor in an aggregate, because a primary key implies them", "not translated; add them to `GROUP BY`";
    Writes: "changes of rows, also in `WITH`; `FOR UPDATE` and its like", "the worker has copies";
    RowSecurity: "tables from which row-level security hides rows", "the worker has all rows";
    Size: "queries of more than 200,000 parts, 100 levels or 1 MiB of the worker's text; lists of more than 20,000 values", "the worker's planner would take too long";
    Form: "expressions and clauses that this page does not name: the error says \"of this form\" or \"of kind\"", "not translated";
}
