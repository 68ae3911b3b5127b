import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.UUID;

/** Transfers and notes by JDBC; the argument is an organisation's number. */
public class Transfers {
    static final int TRANSFERS = 20, TRIES = 1000;
    static int retried;

    interface Work {
        void run(Connection connection) throws SQLException;
    }

    /** Does the work in a transaction until it does not lose, at most TRIES times. */
    static void again(Connection connection, Work work) throws SQLException {
        for (int attempt = 1;; attempt++) {
            try {
                work.run(connection);
                connection.commit();
                return;
            } catch (SQLException error) {
                connection.rollback();
                if (!"40001".equals(error.getSQLState()) || attempt == TRIES) throw error;
                retried++;
            }
        }
    }

    static void move(Connection connection, int account, int amount) throws SQLException {
        try (var update = connection.prepareStatement("UPDATE accounts SET balance = balance + ?, version = version + 1 WHERE id = ?");
                var insert = connection.prepareStatement("INSERT INTO entries (account, amount) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            update.setBigDecimal(1, BigDecimal.valueOf(amount));
            update.setInt(2, account);
            check(update.executeUpdate() == 1, "no account " + account);
            insert.setInt(1, account);
            insert.setBigDecimal(2, BigDecimal.valueOf(amount));
            insert.executeUpdate();
            check(insert.getGeneratedKeys().next(), "no generated key");
        }
    }

    /** Writes 105 notes and one that does not stay. */
    static void notes(Connection connection, int me) throws SQLException {
        var code = UUID.randomUUID();
        try (var insert = connection.prepareStatement("INSERT INTO notes (writer, text, facts, tags, at, code) VALUES (?, ?, ?::jsonb, ?, ?, ?)")) {
            for (int i = 0; i < 105; i++) {
                insert.setInt(1, me);
                insert.setString(2, "note " + i);
                insert.setString(3, i % 2 == 0 ? "{\"i\": " + i + "}" : null);
                insert.setArray(4, connection.createArrayOf("text", new String[] {"a,b", null}));
                insert.setTimestamp(5, new Timestamp(System.currentTimeMillis()));
                insert.setObject(6, i == 0 ? code : UUID.randomUUID());
                insert.addBatch();
            }
            check(insert.executeBatch().length == 105, "the batch is short");
        }
        var savepoint = connection.setSavepoint();
        try (var insert = connection.prepareStatement("INSERT INTO notes (writer, text, code) VALUES (?, 'double', ?)")) {
            insert.setInt(1, me);
            insert.setObject(2, code);
            insert.executeUpdate();
            throw new IllegalStateException("two notes have one code");
        } catch (SQLException error) {
            if (!"23505".equals(error.getSQLState())) throw error;
            connection.rollback(savepoint);
        }
        try (var rows = connection.createStatement(java.sql.ResultSet.TYPE_FORWARD_ONLY, java.sql.ResultSet.CONCUR_UPDATABLE)
                .executeQuery("SELECT id, text FROM notes WHERE writer = " + me + " AND text = 'note 7'")) {
            check(rows.next(), "no note 7");
            rows.updateString("text", "changed");
            rows.updateRow();
        }
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) throw new IllegalStateException(otherwise);
    }

    public static void main(String[] arguments) throws SQLException {
        int me = Integer.parseInt(arguments[0]);
        var env = System.getenv();
        for (String options : new String[] {"", "&reWriteBatchedInserts=true&autosave=always&prepareThreshold=1"}) {
            // The driver has no Unix sockets and reads none of libpq's variables.
            try (var connection = DriverManager.getConnection(
                    "jdbc:postgresql://127.0.0.1:" + env.get("PGPORT") + "/" + env.get("PGDATABASE") + "?user=" + env.get("PGUSER") + options)) {
                connection.setAutoCommit(false);
                connection.setTransactionIsolation(options.isEmpty() ? Connection.TRANSACTION_READ_COMMITTED : Connection.TRANSACTION_REPEATABLE_READ);
                for (int i = 0; i < TRANSFERS / 2; i++) {
                    int from = 1 + i, to = 1 + (i + me + 1) % 10;
                    again(connection, c -> {
                        move(c, from, -1);
                        move(c, to, 1);
                    });
                }
                if (!options.isEmpty()) again(connection, c -> notes(c, me));
            }
        }
        System.out.println(retried + " transactions ran again");
    }
}
