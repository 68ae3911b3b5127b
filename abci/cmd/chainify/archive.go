package main

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/archive"
	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/backend/postgres"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/engines"
	"github.com/chainify-db/chainify/abci/node"
	"github.com/chainify-db/chainify/abci/wire"
)

const archiveExitHelp = `Exit codes: 0 done; 1 failed, or something does not hold; 2 wrong usage.`

func newArchive() *cobra.Command {
	cmd := group("archive", "Blocks in files that anybody can verify",
		`archive writes blocks with their transactions, certificates and changes to Parquet files, and verifies and reads these files without
a database. A node does the first on a schedule by itself: [retention] archive in chainify.toml.`)
	cmd.AddCommand(newArchiveRun(), newArchiveList(), newArchiveVerify(), newArchiveReceipt(), newArchiveFetch())
	cmd.PersistentPreRun = func(*cobra.Command, []string) { collectSeldom() }
	return cmd
}

// collectSeldom lets the program hold more garbage while it has less than a gigabyte. Rows of an
// archive are garbage once they are read, and collecting it as often as a server does took 17 % of
// the processor time of a verification. An operator's GOGC and GOMEMLIMIT stand.
func collectSeldom() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(1 << 30)
	}
}

// placeFlags name an archive and the genesis of its chain.
type placeFlags struct {
	genesisFlags
	retention config.Retention
}

const placeHelp = `PLACE is a directory, or the URL of a bucket of an S3-compatible store. Then --s3-region is needed, and the keys come from
--s3-credentials-file or the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).`

func (p *placeFlags) flags(cmd *cobra.Command, others ...string) {
	p.genesisFlags.flags(cmd)
	cmd.Flags().StringVar(&p.retention.ArchiveS3Region, "s3-region", "", "region of the S3-compatible store")
	cmd.Flags().StringVar(&p.retention.ArchiveS3CredentialsFile, "s3-credentials-file", "", "the store's keys, a file of mode 0600")
	require(cmd, append([]string{"genesis"}, others...)...)
}

// open opens the archive and says whose votes count.
func (p *placeFlags) open(place string) (archive.Store, audit.Authorities, error) {
	a, err := p.authorities()
	if err != nil {
		return nil, nil, err
	}
	if p.retention.Archive = place; config.ArchiveIsURL(place) && p.retention.ArchiveS3Region == "" {
		return nil, nil, usageError("--s3-region is needed for a URL")
	}
	store, err := node.OpenArchive(".", p.retention)
	if err != nil {
		return nil, nil, &exitError{exitUsage, err}
	}
	return store, a, nil
}

// rangeJSON is a range in "chainify archive list --json", and in the progress of others.
type rangeJSON struct {
	First        uint64 `json:"first"`
	Last         uint64 `json:"last"`
	Hash         string `json:"hash"`
	Organisation string `json:"organisation"`
	Transactions uint64 `json:"transactions"`
	Changes      uint64 `json:"changes"`
	Files        int    `json:"files"`
	Bytes        uint64 `json:"bytes"`
}

func rangeOf(m *archive.Manifest) rangeJSON {
	return rangeJSON{
		m.First, m.Last, hex.EncodeToString(m.Hash), m.Organisation, m.Rows(archive.Transactions), m.Rows(archive.Changes), len(m.Files), m.Bytes(),
	}
}

func (r rangeJSON) String() string {
	return fmt.Sprintf("blocks %d to %d, %s, %s, %s, %d bytes, by %s", r.First, r.Last, plural(r.Transactions, "transaction"),
		plural(r.Changes, "change"), plural(r.Files, "file"), r.Bytes, r.Organisation)
}

func newArchiveRun() *cobra.Command {
	var home, governance string
	var to uint64
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:   "run [--home DIR]",
		Short: "Archive all certified blocks that are not archived yet",
		Long: `run writes the blocks that are certified when it begins to the place of [retention] archive. It reads the files back, verifies
them, and signs them by the organisation's gateway key. It says each range when the archive has it. Stopped at any moment, the next run goes on. The node may run or not.
Where keys or organisations have changed since the genesis, the governance record says so (chainify governance record).

` + archiveExitHelp,
		Example: `  chainify archive run --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, options, err := archiveOptions(home, governance)
			if err != nil {
				return err
			}
			ranges, err := runArchive(cmd, store, options, to, bool(asJSON))
			if err != nil {
				return err
			}
			return asJSON.print(cmd, map[string]any{"ranges": ranges}, func(out io.Writer) {
				if len(ranges) == 0 {
					fmt.Fprintln(out, "every certified block is archived already")
				}
			})
		},
	}
	homeFlag(cmd, &home)
	cmd.Flags().StringVar(&governance, "governance", "", "the record of governance changes since the genesis")
	numberFlag(cmd, &to, "to", "the last block to archive; left out: the last one that is certified now")
	asJSON.flag(cmd)
	return cmd
}

func runArchive(cmd *cobra.Command, store archive.Store, options archive.Options, to uint64, asJSON bool) ([]rangeJSON, error) {
	if d, is := store.(archive.Directory); is {
		unlock, err := d.Lock()
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	var err error
	ranges := []rangeJSON{}
	node.GiveWay(func() {
		err = archive.New(options).Run(cmd.Context(), to, func(m *archive.Manifest) {
			ranges = append(ranges, rangeOf(m))
			if !asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "archived %s\n", rangeOf(m))
			}
		})
	})
	return ranges, err
}

// archiveOptions are those of a home.
func archiveOptions(home, governance string) (archive.Store, archive.Options, error) {
	var o archive.Options
	c, err := config.Load(home)
	if err != nil {
		return nil, o, err
	}
	if c.Retention.Archive == "" || c.Database.DSN == "" {
		return nil, o, usageError("%s: retention.archive or database.dsn is empty: there is nowhere to archive to, or nothing to archive", home)
	}
	if err := engines.Needs(c.Database.DSN, "the archive"); err != nil {
		return nil, o, &exitError{exitUsage, err}
	}
	h := config.Home(home)
	f := genesisFlags{genesis: h.Genesis(), governance: governance}
	all, err := f.authorities()
	if err != nil {
		return nil, o, err
	}
	store, err := node.OpenArchive(h, c.Retention)
	if err != nil {
		return nil, o, err
	}
	source, err := postgres.OpenArchivable(c.Database.DSN, all[0].ChainID)
	o = archive.Options{
		Source: source, Store: store, ChainID: all[0].ChainID, Organisation: c.Organisation,
		Authorities: func() (audit.Authorities, error) { return all, nil },
		Key:         func() (crypto.Signer, error) { return countingKey(h, c.Organisation, all) },
	}
	return store, o, err
}

// countingKey is the home's gateway key that the organisation has now.
func countingKey(h config.Home, organisation string, all audit.Authorities) (crypto.Signer, error) {
	keys, err := h.GatewayKeys()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if bytes.Equal(key.Public().(ed25519.PublicKey), all[len(all)-1].GatewayKeys[organisation]) {
			return key, nil
		}
	}
	return nil, errors.New("no gateway key of this home is the organisation's: give the governance record (--governance)")
}

func newArchiveList() *cobra.Command {
	var p placeFlags
	cmd := &cobra.Command{
		Use:   "list PLACE --genesis FILE",
		Short: "Show the ranges of blocks of an archive",
		Long: `list reads the manifests of an archive and checks nothing but their form. ` + placeHelp + `

` + archiveExitHelp,
		Example: `  chainify archive list /srv/archive --genesis genesis.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, a, err := p.open(args[0])
			if err != nil {
				return err
			}
			ranges := []rangeJSON{}
			err = archive.List(cmd.Context(), store, a[0].ChainID, func(m *archive.Manifest) error {
				ranges = append(ranges, rangeOf(m))
				return nil
			})
			if err != nil {
				return err
			}
			return forMachines(p.asJSON).print(cmd, map[string]any{"ranges": ranges}, func(out io.Writer) {
				for _, r := range ranges {
					fmt.Fprintln(out, r)
				}
				if len(ranges) == 0 {
					fmt.Fprintln(out, "the archive has no block of this chain")
				}
			})
		},
	}
	p.flags(cmd)
	return cmd
}

func newArchiveVerify() *cobra.Command {
	var p placeFlags
	var to uint64
	cmd := &cobra.Command{
		Use:   "verify PLACE --genesis FILE",
		Short: "Check a whole archive, without node or database",
		Long: `verify reads every file of an archive. It checks the organisation's signatures, the hash of each file and the chain of blocks. It
checks the certificate of each block against the genesis and the governance record. Transactions and changes have to be those that
the certified block names, and names of columns those of its definitions. It names each file and block that is not so, and tables
of which nothing proves the names. ` + placeHelp + `

An archive may lack its newest ranges. --to says up to which block it has to go.

` + verifyExitHelp,
		Example: `  chainify archive verify /srv/archive --genesis genesis.json --governance governance.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, a, err := p.open(args[0])
			if err != nil {
				return err
			}
			started := time.Now()
			v, err := archive.Verify(cmd.Context(), store, a[0].ChainID, a, func(m *archive.Manifest) {
				if !p.asJSON {
					fmt.Fprintf(cmd.ErrOrStderr(), "read %s\n", rangeOf(m))
				}
			})
			if err != nil {
				return err
			}
			if v.Last < to {
				v.Findings = append(v.Findings, archive.Finding{File: archive.ManifestName(a[0].ChainID, v.Last+1), What: "manifest", Detail: "there is none, so the archive ends before the block asked for"})
			}
			err = forMachines(p.asJSON).print(cmd, v, func(out io.Writer) { archiveVerdict(out, args[0], v, time.Since(started)) })
			return failUnless(len(v.Findings) == 0 && v.Ranges > 0, err)
		},
	}
	p.flags(cmd)
	numberFlag(cmd, &to, "to", "the block that the archive has to reach")
	return cmd
}

func archiveVerdict(out io.Writer, place string, v archive.Verdict, took time.Duration) {
	if len(v.Findings) == 0 && v.Ranges > 0 {
		fmt.Fprintf(out, "%s: holds\n  blocks 1 to %d, hash %s\n  %s, %s in %s, %d bytes, %.1f s\n", place, v.Last, v.Hash,
			plural(v.Transactions, "transaction"), plural(v.Changes, "change"), plural(v.Ranges, "range"), v.Bytes, took.Seconds())
		for _, u := range v.Unproven {
			fmt.Fprintf(out, "  names of columns are not proven in the range of block %d: %s\n", u.First, strings.Join(u.Tables, ", "))
		}
		return
	}
	fmt.Fprintf(out, "%s: DOES NOT HOLD\n", place)
	for _, f := range v.Findings {
		fmt.Fprintf(out, "  %s\n", f)
	}
	if v.Ranges == 0 {
		fmt.Fprintln(out, "  the archive has no block of this chain")
	}
}

func newArchiveReceipt() *cobra.Command {
	var p placeFlags
	var w archive.Wanted
	var key string
	cmd := &cobra.Command{
		Use:   "receipt PLACE ID --genesis FILE",
		Short: "Print the receipt of an archived transaction",
		Long: `receipt prints what chainify.receipt() prints of a transaction that the database still has. "chainify verify-receipt" and
audit/audit.py check it. With --table and --key it is for the transaction's last change of that row. KEY is as "archive fetch"
prints it. With --block it reads the files of one range alone. ` + placeHelp + `

` + archiveExitHelp,
		Example: `  chainify archive receipt /srv/archive 6f1ce0… --block 812 --genesis genesis.json > receipt.json
  chainify verify-receipt receipt.json --genesis genesis.json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := hex.DecodeString(args[1])
			if err != nil || len(id) != len(w.ID) {
				return usageError("ID: %q is not %d bytes in hexadecimal", args[1], len(w.ID))
			}
			w.ID = wire.TxID(id)
			if w.Key, err = hex.DecodeString(key); err != nil || (w.Table == "") != (key == "") {
				return usageError("--table and --key go together, and KEY is hexadecimal")
			}
			store, a, err := p.open(args[0])
			if err != nil {
				return err
			}
			r, err := archive.Receipt(cmd.Context(), store, a[0].ChainID, a, w)
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), r)
		},
	}
	p.flags(cmd)
	numberFlag(cmd, &w.Block, "block", "the transaction's block; left out: it is looked for")
	cmd.Flags().StringVar(&w.Table, "table", "", "the table of the row, schema.name")
	cmd.Flags().StringVar(&key, "key", "", "the encoded key of the row, in hexadecimal")
	return cmd
}

func newArchiveFetch() *cobra.Command {
	var p placeFlags
	s := archive.Slice{From: 1}
	cmd := &cobra.Command{
		Use:   "fetch PLACE --genesis FILE",
		Short: "Print archived blocks, transactions or changes",
		Long: `fetch prints a JSON object a line. Of a change "cells" is the row by the names of its columns: the row after it, or before a
deletion. It checks the signatures of manifests up to the last block, and compares every file read with its manifest, and names of
columns with definitions ("names_not_proven": nothing proves them). "archive verify" checks the rest. Where keys have changed since the genesis, the governance record says so. ` + placeHelp + `

` + archiveExitHelp,
		Example: `  chainify archive fetch /srv/archive --genesis genesis.json --from 800 --to 899 --table public.accounts`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Kind != archive.Blocks && s.Kind != archive.Transactions && s.Kind != archive.Changes {
				return usageError("--kind: %q is none of blocks, transactions and changes", s.Kind)
			}
			s.To = cmp.Or(s.To, math.MaxUint64)
			store, a, err := p.open(args[0])
			if err != nil {
				return err
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetEscapeHTML(false)
			return archive.Fetch(cmd.Context(), store, a[0].ChainID, a, s, func(r *archive.Row) error { return e.Encode(r) })
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&s.Kind, "kind", archive.Changes, "blocks, transactions or changes")
	numberFlag(cmd, &s.From, "from", "the first block")
	numberFlag(cmd, &s.To, "to", "the last block; left out: the last of the archive")
	cmd.Flags().StringVar(&s.Table, "table", "", "changes of this table alone, schema.name")
	return cmd
}
