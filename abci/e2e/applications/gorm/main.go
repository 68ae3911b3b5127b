// Command gorm makes transfers and notes by GORM. Its argument is make, for the tables, or an
// organisation's number.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

const (
	transfers = 20
	triesMax  = 1000
)

// Account is one of ten, between which units are moved.
type Account struct {
	ID      int64   `gorm:"primaryKey;autoIncrement:false"`
	Owner   string  `gorm:"unique;not null"`
	Balance float64 `gorm:"type:numeric(12,2);not null;check:balance >= 0"`
	Version int     `gorm:"not null;default:1"`
}

// Entry is one side of a transfer.
type Entry struct {
	ID      int64
	Account int64     `gorm:"not null"`
	Of      *Account  `gorm:"foreignKey:Account"`
	Amount  float64   `gorm:"type:numeric(12,2);not null"`
	At      time.Time `gorm:"autoCreateTime"`
}

// Note is written by one organisation.
type Note struct {
	ID     int64
	Writer int             `gorm:"not null;index"`
	Text   string          `gorm:"size:200;not null"`
	Facts  json.RawMessage `gorm:"type:jsonb"`
	At     time.Time       `gorm:"autoUpdateTime"`
}

func main() {
	// libpq's variables name host, port, role and database.
	db, err := gorm.Open(postgres.Open(""), &gorm.Config{PrepareStmt: true, Logger: logger.Discard})
	if err == nil && os.Args[1] == "make" {
		err = makeTables(db)
	} else if err == nil {
		err = use(db, os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}

func makeTables(db *gorm.DB) error {
	accounts := make([]Account, 10)
	for i := range accounts {
		accounts[i] = Account{ID: int64(i + 1), Owner: fmt.Sprintf("owner %d", i), Balance: 1000}
	}
	return errors.Join(db.AutoMigrate(&Account{}, &Entry{}, &Note{}), db.Create(&accounts).Error)
}

func use(db *gorm.DB, number string) error {
	me, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	retried := 0
	for i := range transfers {
		if err := again(db, &retried, func(tx *gorm.DB) error { return transfer(tx, int64(1+i%10), int64(1+(i+me+1)%10)) }); err != nil {
			return fmt.Errorf("transfer: %w", err)
		}
	}
	if err := again(db, &retried, func(tx *gorm.DB) error { return notes(tx, me) }); err != nil {
		return fmt.Errorf("notes: %w", err)
	}
	fmt.Println(retried, "transactions ran again")
	return nil
}

// again does the work in a transaction until it does not lose, at most triesMax times.
func again(db *gorm.DB, retried *int, work func(*gorm.DB) error) (err error) {
	for range triesMax {
		err = db.Transaction(work)
		var lost *pgconn.PgError
		if !errors.As(err, &lost) || lost.Code != "40001" {
			return err
		}
		*retried++
	}
	return err
}

func transfer(tx *gorm.DB, from, to int64) error {
	for account, amount := range map[int64]float64{from: -1, to: 1} {
		var found Account
		if err := tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&found, account).Error; err != nil {
			return err
		}
		found.Balance += amount
		found.Version++
		entry := Entry{Account: account, Amount: amount}
		if err := errors.Join(tx.Save(&found).Error, tx.Create(&entry).Error); err != nil {
			return err
		}
	}
	return nil
}

// notes writes 105 notes and some that do not stay.
func notes(tx *gorm.DB, me int) error {
	many := make([]Note, 105)
	for i := range many {
		many[i] = Note{Writer: me, Text: fmt.Sprintf("note %d", i), Facts: json.RawMessage(`{"a": [1, null]}`)}
	}
	if err := tx.CreateInBatches(&many, 40).Error; err != nil {
		return err
	}
	nested := tx.Transaction(func(tx *gorm.DB) error { return tx.Create(&Note{ID: many[0].ID, Writer: me, Text: "double"}).Error })
	var duplicate *pgconn.PgError
	if !errors.As(nested, &duplicate) || duplicate.Code != "23505" {
		return fmt.Errorf("a duplicate in a nested transaction: %w", nested)
	}
	met := Note{ID: many[1].ID, Writer: me, Text: "met"}
	changed := tx.Model(&Note{}).Where("writer = ? AND text LIKE ?", me, "note 9%").Updates(map[string]any{"text": "changed"})
	deleted := tx.Delete(&many[2])
	if err := errors.Join(changed.Error, deleted.Error, tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&met).Error); err != nil {
		return err
	}
	if changed.RowsAffected != 11 || deleted.RowsAffected != 1 {
		return fmt.Errorf("%d notes changed, want 11; %d deleted, want 1", changed.RowsAffected, deleted.RowsAffected)
	}
	return tx.Create(&Note{Writer: me, Text: "last"}).Error
}
