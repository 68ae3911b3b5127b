package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
)

// A lone transaction's bytes, weighed while the nodes rest.
const (
	chainifyKept = "chainify, 4 organisations, weighed at rest"
	formerKept   = "release 0.1, 4 organisations, weighed at rest"
)

// rested is a network whose nodes run only while its load does, so that their stores can be read.
// The files of a store say little after a short load: its log holds each overwritten value, and
// compaction comes later.
type rested struct{ *ours }

func (r rested) start(context.Context) error { return nil }
func (r rested) stop() error                 { return nil }
func (r rested) nodes() []int                { return nil }

// weigh adds up what is kept.
func (r rested) weigh(ctx context.Context) (disk, error) {
	return diskBy(ctx, r.members(), held)
}

// held is the size of the keys and values that a store of LevelDB holds, read from a copy, and that
// of everything else as it is.
func held(path string) (size int64, err error) {
	if filepath.Ext(path) != ".db" {
		return machine.Size(path)
	}
	copied, err := os.MkdirTemp("", "weighed-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
	if err := os.CopyFS(copied, os.DirFS(path)); err != nil {
		return 0, fmt.Errorf("copy %s: %w", path, err)
	}
	db, err := leveldb.OpenFile(copied, &opt.Options{ErrorIfMissing: true})
	if err != nil {
		return 0, fmt.Errorf("read a copy of %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	all := db.NewIterator(nil, nil)
	defer all.Release()
	for all.Next() {
		size += int64(len(all.Key()) + len(all.Value()))
	}
	return size, all.Error()
}

// waited is one client that waits for each answer, and what an organisation keeps of each.
func (r rested) waited(ctx context.Context, repetition int) (load, error) {
	return weighed(r.weigh, len(r.members()), func(ctx context.Context, repetition int) (l load, err error) {
		if err := r.ours.start(ctx); err != nil {
			return l, err
		}
		defer func() { err = errors.Join(err, r.ours.stop()) }()
		return r.wait(1)(ctx, repetition)
	})(ctx, repetition)
}

// keptFigures say what is kept of a lone transaction, and nothing where it was not measured.
func keptFigures(r *report.Report) error {
	now := details(r.Find(chainifyKept, 1))
	for _, f := range []struct {
		id, what string
		parts    []string
	}{
		{"waiting_one_bytes", "bytes that one organisation keeps of a lone transaction", kept},
		{"waiting_one_bytes_database", "of that, growth of the database", []string{databaseBytes}},
		{"waiting_one_bytes_blocks", "of that, CometBFT's block store", []string{blockBytes}},
		{"waiting_one_bytes_state", "of that, the order's state", []string{stateBytes}},
	} {
		if len(now) == 0 {
			break
		}
		if err := r.AddFigure("network."+f.id, sums(now, f.parts), "bytes/tx", report.Target{}, f.what); err != nil {
			return err
		}
	}
	return nil
}
