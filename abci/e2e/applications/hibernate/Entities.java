import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.JoinColumn;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.UUID;
import java.util.function.Consumer;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Transfers and notes by Hibernate's entities; the argument is an organisation's number. */
public class Entities {
    static final int TRANSFERS = 20, NOTES = 105, TRIES = 1000;
    static int conflicts, versions;

    @Entity @Table(name = "accounts")
    public static class Account {
        @Id Long id;
        String owner;
        BigDecimal balance;
        @Version Integer version;
    }

    @Entity @Table(name = "entries")
    public static class Entry {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @ManyToOne @JoinColumn(name = "account") Account account;
        BigDecimal amount;
        OffsetDateTime at;
    }

    @Entity @Table(name = "notes")
    public static class Note {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        int writer;
        @Column(length = 200) String text;
        String[] tags;
        OffsetDateTime at;
        UUID code;
    }

    /** Says whether another transaction won: by version, or by SQLSTATE 40001. */
    static boolean lost(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException sql && "40001".equals(sql.getSQLState())) {
                conflicts++;
                return true;
            }
        }
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof OptimisticLockException) {
                versions++;
                return true;
            }
        }
        return false;
    }

    /** Does the work in a session of its own until it does not lose, at most TRIES times. */
    static void again(SessionFactory factory, Consumer<Session> work) {
        for (int attempt = 1;; attempt++) {
            try {
                factory.inTransaction(work);
                return;
            } catch (RuntimeException error) {
                if (!lost(error) || attempt == TRIES) throw error;
            }
        }
    }

    static void move(Session session, long id, int amount, boolean lock) {
        var account = session.find(Account.class, id, lock ? LockModeType.PESSIMISTIC_WRITE : LockModeType.NONE);
        account.balance = account.balance.add(BigDecimal.valueOf(amount));
        var entry = new Entry();
        entry.account = account;
        entry.amount = BigDecimal.valueOf(amount);
        entry.at = OffsetDateTime.now();
        session.persist(entry);
    }

    static void notes(Session session, int me) {
        for (int i = 0; i < NOTES; i++) {
            var note = new Note();
            note.writer = me;
            note.text = "note " + i;
            note.tags = new String[] {"a,b", "c"};
            note.at = OffsetDateTime.now();
            note.code = UUID.randomUUID();
            session.persist(note);
        }
        int changed = session.createMutationQuery("update Entities$Note set text = 'changed' where writer = :me and text like 'note 1%'")
                .setParameter("me", me).executeUpdate();
        if (changed != 16) throw new IllegalStateException(changed + " notes changed");
    }

    public static void main(String[] arguments) {
        int me = Integer.parseInt(arguments[0]);
        var env = System.getenv();
        var configuration = new Configuration().addAnnotatedClass(Account.class).addAnnotatedClass(Entry.class).addAnnotatedClass(Note.class)
                .setProperty("hibernate.connection.url", "jdbc:postgresql://127.0.0.1:" + env.get("PGPORT") + "/" + env.get("PGDATABASE"))
                .setProperty("hibernate.connection.username", env.get("PGUSER"))
                .setProperty("hibernate.jdbc.batch_size", "20")
                .setProperty("hibernate.hbm2ddl.auto", "validate");
        try (var factory = configuration.buildSessionFactory()) {
            for (int i = 0; i < TRANSFERS; i++) {
                int from = 1 + i % 10, to = 1 + (i + me + 1) % 10;
                boolean lock = i % 2 == 1;
                again(factory, session -> {
                    move(session, from, -1, lock);
                    move(session, to, 1, lock);
                });
            }
            again(factory, session -> notes(session, me));
        }
        System.out.println(conflicts + " transactions ran again by 40001, " + versions + " by version");
    }
}
