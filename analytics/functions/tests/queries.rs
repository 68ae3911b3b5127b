//! Whole queries with the dialect's functions: columns with NULLs, groups over many batches and
//! partitions, windows, subqueries, and errors.
use chainify_analytics_functions::{register, write_text, SqlError};
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

/// Small batches in several partitions, so that aggregates have states.
async fn context() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(4).with_batch_size(2);
    let context = SessionContext::new_with_config(config);
    register(&context);
    let rows = [
        "('1', '10', '1.50', '1.5', '1.5', 'a ')",
        "('1', '20', '-2.25', '-2.25', 'NaN', 'b')",
        "('1', NULL, NULL, NULL, NULL, NULL)",
        "('2', '7', '0.01', '100', '-Infinity', 'ä')",
        "('2', '8', '0.02', '20.000', '-0', '')",
        "('2', '9', '0.03', '-100', '0', 'zz')",
        "('3', NULL, NULL, NULL, NULL, NULL)",
    ];
    let table = format!(
        "CREATE TABLE t AS SELECT CAST(g AS INT) AS g, CAST(i AS INT) AS i, \
         CAST(d AS DECIMAL(15,2)) AS d, CAST(x AS VARCHAR) AS x, CAST(f AS DOUBLE) AS f, \
         CAST(s AS VARCHAR) AS s FROM (VALUES {}) AS v (g, i, d, x, f, s)",
        rows.join(", ")
    );
    run(&context, &table).await.expect("a table");
    context
}

async fn run(context: &SessionContext, sql: &str) -> Result<Vec<String>, DataFusionError> {
    let mut rows = Vec::new();
    for batch in context.sql(sql).await?.collect().await? {
        for row in 0..batch.num_rows() {
            let mut line = Vec::new();
            for column in batch.columns() {
                let mut text = String::new();
                let shown = write_text(column, row, &mut text)?;
                line.push(if shown { text } else { "NULL".to_owned() });
            }
            rows.push(line.join("|"));
        }
    }
    Ok(rows)
}

async fn rows(sql: &str) -> Vec<String> {
    run(&context().await, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

async fn sqlstate(sql: &str) -> &'static str {
    let error = run(&context().await, sql).await.expect_err(sql);
    SqlError::of(&error).unwrap_or_else(|| panic!("{sql}: {error}")).sqlstate
}

#[tokio::test]
async fn columns_have_nulls() {
    let sql = "SELECT pg_add(i, CAST(1 AS INT)), pg_mul(d, CAST('2.0' AS DECIMAL(2,1))), \
               pg_num_add(x, '0.001'), pg_length(s), pg_bpchar_key(s), pg_float_gt(f, f) \
               FROM t WHERE g < 3 ORDER BY i NULLS LAST";
    let expected = [
        "8|0.020|100.001|1|ä|f",
        "9|0.040|20.001|0||f",
        "10|0.060|-99.999|2|zz|f",
        "11|3.000|1.501|2|a|f",
        "21|-4.500|-2.249|1|b|f",
        "NULL|NULL|NULL|NULL|NULL|NULL",
    ];
    assert_eq!(rows(sql).await, expected);
}

#[tokio::test]
async fn orders() {
    let sql = "SELECT x FROM t WHERE x IS NOT NULL ORDER BY pg_num_key(x)";
    assert_eq!(rows(sql).await, ["-100", "-2.25", "1.5", "20.000", "100"]);
    let sql = "SELECT f, i FROM t WHERE i IS NOT NULL ORDER BY pg_float_order(f), i";
    assert_eq!(rows(sql).await, ["-Infinity|7", "-0|8", "0|9", "1.5|10", "NaN|20"]);
}

#[tokio::test]
async fn groups() {
    let sql =
        "SELECT g, pg_sum(i), pg_avg(i), pg_sum(d), pg_avg(d), pg_num_sum(x), pg_num_avg(x), \
               pg_num_min(x), pg_num_max(x), pg_sum(CAST(i AS BIGINT)) FILTER (WHERE i > 8) \
               FROM t GROUP BY g ORDER BY g";
    let expected = [
        "1|30|15.0000000000000000|-0.75|-0.37500000000000000000|-0.75|-0.37500000000000000000|\
         -2.25|1.5|30",
        "2|24|8.0000000000000000|0.06|0.02000000000000000000|20.000|6.6666666666666667|\
         -100|100|9",
        "3|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
    ];
    assert_eq!(rows(sql).await, expected);
    let sql = "SELECT pg_sum(i), pg_avg(d), pg_num_sum(x), count(DISTINCT pg_num_key(x)) FROM t";
    assert_eq!(rows(sql).await, ["54|-0.13800000000000000000|19.250|5"]);
    let sql = "SELECT pg_sum(i), pg_avg(i), pg_num_max(x), pg_single(i) FROM t WHERE FALSE";
    assert_eq!(rows(sql).await, ["NULL|NULL|NULL|NULL"]);
}

#[tokio::test]
async fn windows() {
    let sql = "SELECT i, pg_sum(i) OVER w, pg_avg(d) OVER w, pg_num_sum(x) OVER w, \
               pg_sum(d) OVER (PARTITION BY g) FROM t WHERE i IS NOT NULL \
               WINDOW w AS (PARTITION BY g ORDER BY i) ORDER BY i";
    let expected = [
        "7|7|0.01000000000000000000|100|0.06",
        "8|15|0.01500000000000000000|120.000|0.06",
        "9|24|0.02000000000000000000|20.000|0.06",
        "10|10|1.50000000000000000000|1.5|-0.75",
        "20|30|-0.37500000000000000000|-0.75|-0.75",
    ];
    assert_eq!(rows(sql).await, expected);
}

/// An expression that a condition guards does not fail, wherever DataFusion moves it.
#[tokio::test]
async fn guards() {
    let divided = "pg_div(CAST(70 AS INT), pg_sub(i, CAST(7 AS INT))) > 10";
    let case = |then: &str, otherwise: &str| {
        format!("pg_truth((CASE WHEN i <> 7 THEN pg_code({then}) ELSE pg_code({otherwise}) END))")
    };
    let guarded = case(&format!("({divided})"), "FALSE");
    let sql = format!("SELECT i FROM t WHERE {guarded} ORDER BY i");
    assert_eq!(rows(&sql).await, ["8", "9", "10"]);
    let sql = format!("SELECT i, {guarded} FROM t WHERE i < 10 ORDER BY i");
    assert_eq!(rows(&sql).await, ["7|f", "8|t", "9|t"]);
    let number = "pg_case((CASE WHEN i <> 7 THEN pg_div(CAST(70 AS INT), pg_sub(i, CAST(7 AS INT))) ELSE CAST(0 AS INT) END))";
    let sql = format!("SELECT i FROM t WHERE {number} > 30 ORDER BY i");
    assert_eq!(rows(&sql).await, ["8", "9"]);
    let sum = "pg_sum(pg_case((CASE WHEN i <> 7 THEN pg_div(CAST(70 AS INT), pg_sub(i, CAST(7 AS INT))) END))) FILTER (WHERE i <> 7)";
    let sql = format!("SELECT g, {sum} FROM t GROUP BY g ORDER BY g");
    assert_eq!(rows(&sql).await, ["1|28", "2|105", "3|NULL"]);
    let sql = format!("SELECT i, {sum} OVER (ORDER BY i) FROM t WHERE i < 10 ORDER BY i");
    assert_eq!(rows(&sql).await, ["7|NULL", "8|70", "9|105"]);
    let all = format!("bool_and({}) FILTER (WHERE i <> 7)", case(&format!("({divided})"), "NULL"));
    let sql = format!("SELECT g, {all} FROM t GROUP BY g ORDER BY g");
    assert_eq!(rows(&sql).await, ["1|f", "2|t", "3|NULL"]);
}

/// A day that no timestamp begins is compared all the same.
#[tokio::test]
async fn far_days() {
    let day = |of: &str| {
        format!("pg_midnight(pg_date_add(CAST('2000-01-01' AS DATE), CAST({of} AS INT)))")
    };
    let at = "CAST('2024-01-01 00:00:00' AS TIMESTAMP(6))";
    let sql = format!(
        "SELECT {} > {at}, {} > {at}, {} < {at}",
        day("108000000"),
        day("1"),
        day("-700000")
    );
    assert_eq!(rows(&sql).await, ["t|f|t"]);
}

#[tokio::test]
async fn single_rows() {
    // DataFusion computes all groups of the subquery, also those that no row asks for.
    let of_row = "SELECT g, (SELECT pg_single(s2.s) AS o1 FROM t AS s2 \
                  WHERE s2.i = s3.i AND s2.i IS NOT NULL) FROM t AS s3 ORDER BY g, i NULLS LAST";
    let expected = ["1|a ", "1|b", "1|NULL", "2|ä", "2|", "2|zz", "3|NULL"];
    assert_eq!(rows(of_row).await, expected);
    let of_row = "SELECT (SELECT pg_single(s2.i) FROM t AS s2 WHERE s2.g = s3.g) FROM t AS s3";
    assert_eq!(sqlstate(of_row).await, "21000");
    let of = "SELECT (SELECT pg_single(s1.o1) AS o1 FROM (SELECT s2.i AS o1 FROM t AS s2";
    assert_eq!(sqlstate(&format!("{of} WHERE s2.g = 1) AS s1)")).await, "21000");
    assert_eq!(rows(&format!("{of} WHERE s2.i = 7) AS s1)")).await, ["7"]);
    assert_eq!(rows(&format!("{of} WHERE s2.g = 3) AS s1)")).await, ["NULL"]);
}

#[tokio::test]
async fn errors_are_found() {
    let zero = "pg_div(i, pg_sub(i, CAST(7 AS INT)))";
    assert_eq!(sqlstate(&format!("SELECT {zero} FROM t")).await, "22012");
    let big = format!("CAST('{}' AS DECIMAL(20,0))", "9".repeat(20));
    let cases = [
        ("pg_div(CAST(1 AS INT), CAST(0 AS INT))", "22012"),
        (&format!("pg_mul({big}, {big})"), "0A000"),
        ("pg_dec(d, 2, 1) FROM (SELECT CAST('99.95' AS DECIMAL(4,2)) AS d)", "22003"),
        ("pg_num_add('NaN', '1')", "0A000"),
        ("pg_num_add('x', '1')", "22P02"),
        ("pg_extract('year', arrow_cast(CAST(2147483647 AS INT), 'Date32'))", "0A000"),
    ];
    for (call, expected) in cases {
        assert_eq!(sqlstate(&format!("SELECT {call}")).await, expected, "{call}");
    }
    // The other branch is not computed.
    let guarded = format!("SELECT CASE WHEN i = 7 THEN 0 ELSE {zero} END FROM t WHERE i = 7");
    assert_eq!(rows(&guarded).await, ["0"]);
}

#[tokio::test]
async fn sums_grow() {
    let big = "SELECT pg_sum(x) FROM (VALUES (CAST(9223372036854775807 AS BIGINT)), \
               (CAST(9223372036854775807 AS BIGINT))) AS v (x)";
    assert_eq!(rows(big).await, ["18446744073709551614"]);
    let nines = "9".repeat(38);
    let over = format!(
        "SELECT pg_sum(x) FROM (VALUES (CAST('{nines}' AS DECIMAL(38,0))), \
         (CAST('{nines}' AS DECIMAL(38,0)))) AS v (x)"
    );
    assert_eq!(sqlstate(&over).await, "0A000");
}

#[tokio::test]
async fn nulls_without_a_type() {
    let sql = "SELECT pg_add(NULL, CAST(1 AS INT)), pg_length(NULL), pg_sum(NULL), \
               pg_extract('year', NULL), pg_num(NULL), pg_text(NULL)";
    assert_eq!(rows(sql).await, ["NULL|NULL|NULL|NULL|NULL|NULL"]);
}

#[tokio::test]
async fn types_that_no_function_takes() {
    let context = context().await;
    for call in ["pg_add(s, s)", "pg_add(i, f)", "pg_length(i)", "pg_sum(f)", "pg_round(d, i)"] {
        let error = run(&context, &format!("SELECT {call} FROM t")).await.expect_err(call);
        assert!(error.to_string().contains("does not take"), "{call}: {error}");
    }
}

#[tokio::test]
async fn texts_of_a_batch_are_bounded() {
    let pool = Arc::new(GreedyMemoryPool::new(16 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().expect("a runtime");
    let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
    register(&context);
    let table =
        "CREATE TABLE t AS SELECT CAST(value AS VARCHAR) AS s FROM generate_series(1, 4096)";
    run(&context, table).await.expect("a table");
    let long = "a".repeat(1_000);
    let grown =
        format!("pg_replace(pg_replace(pg_concat(s, 'aaaaaaaaaa'), 'a', '{long}'), 'a', '{long}')");
    let joined = format!("pg_concat(pg_concat(s, '{long}'), '{long}')");
    for text in [&grown, &joined, &format!("pg_left('{long}', CAST(pg_length(s) + 999 AS BIGINT))")]
    {
        let sql = format!("SELECT max(pg_length({text})) FROM t");
        let error = run(&context, &sql).await.expect_err(text);
        assert_eq!(
            SqlError::of(&error).map(|error| error.sqlstate),
            Some("53200"),
            "{text}: {error}"
        );
    }
    let short =
        run(&context, "SELECT max(pg_length(pg_concat(s, 'x'))), max(pg_concat(s, NULL)) FROM t")
            .await;
    assert_eq!(short.expect("they fit"), ["5|NULL"]);
}
