package node

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/archive"
	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

// Rows that are dropped at a time, and the pause after them: a fraction of a block's time at work.
const (
	dropRows  = 5_000
	dropPause = 100 * time.Millisecond
)

const archiveLook = time.Minute

// OpenArchive opens the place of an archive. Names of files are in the home.
func OpenArchive(home config.Home, r config.Retention) (archive.Store, error) {
	if !config.ArchiveIsURL(r.Archive) {
		directory := home.Path(r.Archive)
		if info, err := os.Stat(directory); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("retention.archive: %s is not a directory", directory)
		}
		return archive.Directory(directory), nil
	}
	credentials := func() (anchor.Credentials, error) { return s3Credentials(home, r.ArchiveS3CredentialsFile) }
	if _, err := credentials(); err != nil {
		return nil, fmt.Errorf("retention.archive: %w", err)
	}
	return anchor.NewS3(r.Archive, r.ArchiveS3Region, credentials)
}

// archiving archives on schedule, and has the database drop what is archived.
type archiving struct {
	archiver archiver
	database archive.Database
	store    archive.Store
	every    time.Duration
	looks    time.Duration // how often it looks in between
	keep     uint64        // blocks; 0: all
	figures  archiveFigures
	log      *slog.Logger
}

// archiver is archive.Archiver.
type archiver interface {
	Run(ctx context.Context, to uint64, each func(*archive.Manifest)) error
	Holds(ctx context.Context, after, to uint64) error
}

// archiveFigures is told how the archive is.
type archiveFigures interface {
	Archived(block, dropped uint64)
	ArchiveFailed()
}

// archivedTo keeps the last block archived, too: order blocks stay until then.
type archivedTo struct {
	archiveFigures
	block *atomic.Uint64
}

// Archived implements archiveFigures.
func (a archivedTo) Archived(block, dropped uint64) {
	a.block.Store(block)
	a.archiveFigures.Archived(block, dropped)
}

// archiving makes it; nil when no archive is configured, or the database cannot be archived.
func (n *node) archiving() (*archiving, error) {
	r := n.opt.Config.Retention
	database, can := n.backend.(archive.Database)
	if r.Archive == "" {
		return nil, nil
	}
	if !can {
		return nil, errors.New("retention.archive: this node has no database that can be archived")
	}
	store, err := OpenArchive(n.opt.Home, r)
	if err != nil {
		return nil, err
	}
	a := archive.New(archive.Options{
		Source: database, Store: store, ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation,
		Authorities: n.authorities, Key: n.archiveKey,
	})
	return &archiving{a, database, store, time.Duration(r.ArchiveEvery), archiveLook, r.HistoryBlocks, archivedTo{n.metrics, &n.archived}, n.log.With("part", "archive")}, nil
}

// archiveKey is the organisation's gateway key that counts.
func (n *node) archiveKey() (crypto.Signer, error) {
	if key := n.keys.Gateway(); key != nil {
		return key, nil
	}
	return nil, errors.New("this home has no gateway key that counts")
}

// authorities are whose votes count, by the order.
func (n *node) authorities() (audit.Authorities, error) {
	h, err := n.registryHistory()
	if err != nil || h == nil {
		return nil, errors.Join(err, errors.New("the order does not know yet who takes part"))
	}
	return authoritiesOf(n.founded.ChainID(), h), nil
}

// authoritiesOf divides a history at the blocks where somebody comes, goes or changes keys.
func authoritiesOf(chainID string, h *wire.RegistryHistory) audit.Authorities {
	from := []uint64{1}
	for _, c := range h.Consents {
		from = append(from, c.Block)
	}
	for _, o := range h.Organisations {
		from = append(from, o.From, o.Until)
	}
	for _, v := range h.Validators {
		from = append(from, v.From, v.Until)
	}
	slices.Sort(from)
	from = slices.DeleteFunc(slices.Compact(from), func(block uint64) bool { return block == 0 })
	out := make(audit.Authorities, 0, len(from))
	holds := func(since, until, block uint64) bool { return since <= block && (until == 0 || block < until) }
	for _, block := range from {
		a := audit.Authority{ChainID: chainID, FromBlock: block, GatewayKeys: map[string][]byte{}}
		for _, c := range h.Consents {
			if c.Block <= block {
				a.Consent = c.Consent
			}
		}
		for _, o := range h.Organisations {
			if holds(o.From, o.Until, block) {
				a.GatewayKeys[o.Name] = o.GatewayKey
			}
		}
		for _, v := range h.Validators {
			if holds(v.From, v.Until, block) {
				a.Validators = append(a.Validators, audit.Validator{Organisation: v.Organisation, Key: v.PublicKey})
			}
		}
		out = append(out, a)
	}
	return out
}

// run works at once and then on schedule until ctx ends. A failure is logged, and tried again when
// its turn comes. In between it looks how far the archive is: a command may have archived, and
// order blocks go then.
func (a *archiving) run(ctx context.Context) {
	for due := time.Now(); ; {
		if now := time.Now(); now.Before(due) {
			_ = a.look(ctx) // a database that is away is told elsewhere
		} else {
			due = now.Add(a.every)
			var err error
			GiveWay(func() { err = a.step(ctx) })
			if err != nil && ctx.Err() == nil {
				a.figures.ArchiveFailed()
				a.log.Error("archiving failed; it is tried again on schedule", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(time.Until(due), a.looks)):
		}
	}
}

// look tells how far the archive is, by the database.
func (a *archiving) look(ctx context.Context) error {
	head, err := a.database.ArchiveHead(ctx)
	if err == nil {
		a.figures.Archived(head.Archived, head.Dropped)
	}
	return err
}

// step archives all that is certified, then has dropped what may go.
func (a *archiving) step(ctx context.Context) error {
	if d, is := a.store.(archive.Directory); is {
		unlock, err := d.Lock()
		if err != nil {
			return err
		}
		defer unlock()
	}
	err := a.archiver.Run(ctx, 0, func(m *archive.Manifest) {
		a.log.Info("archived", "first", m.First, "last", m.Last, "transactions", m.Rows(archive.Transactions), "changes", m.Rows(archive.Changes), "bytes", m.Bytes())
	})
	if err == nil {
		err = a.drop(ctx)
	}
	if err != nil {
		return err
	}
	return a.look(ctx)
}

// drop has dropped what may go when it begins, a little at a time. Blocks that may go later are for
// the next turn, together.
func (a *archiving) drop(ctx context.Context) error {
	if a.keep == 0 {
		return nil
	}
	head, err := a.database.ArchiveHead(ctx)
	if err != nil || min(head.Archived, head.Certified) <= head.Dropped+a.keep {
		return err
	}
	to := min(head.Archived, head.Certified-a.keep)
	if err := a.archiver.Holds(ctx, head.Dropped, to); err != nil {
		return fmt.Errorf("nothing is dropped: %w", err)
	}
	rows, last := uint64(0), uint64(0)
	for last < to {
		block, gone, err := a.database.DropArchived(ctx, a.keep, dropRows)
		if err != nil {
			return err
		}
		if block == 0 {
			break
		}
		rows, last = rows+gone, block
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(dropPause):
		}
	}
	if last > 0 {
		a.log.Info("dropped what the archive has", "last", last, "rows", rows)
	}
	return nil
}
