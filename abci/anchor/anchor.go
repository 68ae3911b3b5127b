// Package anchor exports a database's digests on a schedule to a place out of reach of its
// administrators, and checks the database against the digests there. The interface Source is the
// database, and Store is the place outside.
package anchor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/chainify-db/chainify/abci/audit"
)

// Source is the database.
type Source interface {
	// Digest is that of the last certified block (spec/receipt.md); ErrNoDigest before the first.
	Digest(ctx context.Context) ([]byte, error)
	// VerifyDigest says where the database does not lead to a digest any more; it reads everything.
	VerifyDigest(ctx context.Context, digest []byte) (findings []string, err error)
}

// ErrNoDigest says that no block is certified yet.
var ErrNoDigest = errors.New("no block is certified yet")

// Store is a place outside. An object that was put there stays as it is.
type Store interface {
	// Put keeps a text under a name; the same again is fine, another one under that name is an
	// error.
	Put(ctx context.Context, name string, text []byte) error
	// Get gives it back.
	Get(ctx context.Context, name string) ([]byte, error)
	String() string
}

// Options say what to take where, and how often.
type Options struct {
	Source Source
	Stores []Store
	Every  time.Duration
	// VerifyEvery is how often the whole database is read and checked against the digest exported
	// before; 0: never.
	VerifyEvery time.Duration
	// Memory keeps what is exported and checked over a restart; nil: nothing does.
	Memory Memory
	Log    *slog.Logger
}

// Kept is what an anchor has to know after a restart. Without it, a node that restarts more often
// than it verifies would never verify, nor against a digest of before.
type Kept struct {
	Last       string    `json:"last"`        // name of the digest exported last; empty: none was
	Sum        []byte    `json:"sum"`         // SHA-256 of its text
	VerifiedAt time.Time `json:"verified_at"` // or when anchoring began
}

// Memory keeps it.
type Memory interface {
	Anchored() (Kept, error)
	KeepAnchored(Kept) error
}

// Anchor exports and checks.
type Anchor struct {
	opt  Options
	kept Kept
}

// New makes an anchor, which goes on where the one before a restart was; Run works.
func New(opt Options) (a *Anchor, err error) {
	a = &Anchor{opt: opt}
	if opt.Memory != nil {
		if a.kept, err = opt.Memory.Anchored(); err != nil {
			return nil, err
		}
	}
	if a.kept.VerifiedAt.IsZero() {
		a.kept.VerifiedAt = time.Now()
	}
	return a, nil
}

// keep keeps what changed.
func (a *Anchor) keep(kept Kept) error {
	a.kept = kept
	if a.opt.Memory == nil {
		return nil
	}
	return a.opt.Memory.KeepAnchored(kept)
}

// Run exports at once and then on schedule until ctx ends. A failure is logged, and the digest is
// tried again when its turn comes.
func (a *Anchor) Run(ctx context.Context) {
	tick := time.NewTicker(a.opt.Every)
	defer tick.Stop()
	for {
		if err := a.Step(ctx, time.Now()); err != nil && ctx.Err() == nil {
			a.opt.Log.Error("anchoring failed; it is tried again on schedule", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Step checks the database against the digest exported before when that is due, and exports the
// newest one.
func (a *Anchor) Step(ctx context.Context, now time.Time) error {
	verified := a.verifyWhenDue(ctx, now)
	digest, err := a.opt.Source.Digest(ctx)
	if errors.Is(err, ErrNoDigest) {
		return verified
	}
	if err != nil {
		return errors.Join(verified, fmt.Errorf("make a digest: %w", err))
	}
	r, err := audit.Parse(digest)
	if err != nil {
		return errors.Join(verified, fmt.Errorf("digest of the database: %w", err))
	}
	name := Name(r.ChainID, r.Block.Number)
	for _, store := range a.opt.Stores {
		if err := export(ctx, store, name, digest); err != nil {
			return errors.Join(verified, fmt.Errorf("export %s to %s: %w", name, store, err))
		}
	}
	if name == a.kept.Last {
		return verified
	}
	sum := sha256.Sum256(digest)
	return errors.Join(verified, a.keep(Kept{name, sum[:], a.kept.VerifiedAt}))
}

// Name is the name under which the digest of a block is stored. Names sort as blocks do.
func Name(chainID string, number uint64) string {
	return fmt.Sprintf("%s-%020d.json", chainID, number)
}

// export puts a digest and sees that it is there.
func export(ctx context.Context, store Store, name string, digest []byte) error {
	if err := store.Put(ctx, name, digest); err != nil {
		return err
	}
	kept, err := store.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	if !bytes.Equal(kept, digest) {
		return errors.New("what is read back is not what was put there")
	}
	return nil
}

// verifyWhenDue checks the database against the digest that each store has from before.
func (a *Anchor) verifyWhenDue(ctx context.Context, now time.Time) error {
	last := a.kept.Last
	if a.opt.VerifyEvery == 0 || last == "" || now.Sub(a.kept.VerifiedAt) < a.opt.VerifyEvery {
		return nil
	}
	if err := a.keep(Kept{last, a.kept.Sum, now}); err != nil {
		return err
	}
	for _, store := range a.opt.Stores {
		digest, err := store.Get(ctx, last)
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", last, store, err)
		}
		if sum := sha256.Sum256(digest); !bytes.Equal(sum[:], a.kept.Sum) {
			return fmt.Errorf("%s of %s is not what was exported", last, store)
		}
		findings, err := a.opt.Source.VerifyDigest(ctx, digest)
		if err != nil {
			return fmt.Errorf("verify %s of %s: %w", last, store, err)
		}
		if len(findings) > 0 {
			return fmt.Errorf("the database does not verify against %s of %s: %d findings, the first: %s", last, store, len(findings), findings[0])
		}
		a.opt.Log.Info("the database verifies against the digest kept outside", "digest", last, "store", store.String())
	}
	return nil
}
