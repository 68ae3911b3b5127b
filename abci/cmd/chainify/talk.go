package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/health"
	"github.com/chainify-db/chainify/abci/wire"
)

// dialLimit bounds connecting, and statusLimit the answer to a question that needs no waiting.
const (
	dialLimit   = 5 * time.Second
	statusLimit = 5 * time.Second
	waitDefault = "30s"
)

// target names the node to talk to.
type target struct{ home, socket string }

func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.home, "home", "", homeHelp)
	cmd.Flags().StringVar(&t.socket, "socket", "", "the node's socket, instead of --home")
}

func (t *target) dial(ctx context.Context) (*gateway.Client, error) {
	path := t.socket
	switch {
	case t.home != "" && t.socket != "":
		return nil, usageError("one of --home and --socket is enough")
	case t.socket == "":
		home, err := t.home, error(nil)
		if home == "" {
			home, err = onlyHome(os.Getenv(homeVariable), homesFolder)
		}
		if err != nil {
			return nil, err
		}
		c, err := config.Load(home)
		if err != nil {
			return nil, err
		}
		t.home = home
		path = config.Home(t.home).Path(c.Clients.Socket)
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	return gateway.Dial(ctx, path)
}

// ask calls question with a client of the node, for an answer that needs no waiting.
func (t *target) ask(ctx context.Context, question func(context.Context, *gateway.Client) error) error {
	client, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	err = question(ctx, client)
	if errors.Is(err, context.DeadlineExceeded) {
		return &exitError{exitUnreachable, fmt.Errorf("the node did not answer within %s", statusLimit)}
	}
	return err
}

type submission struct {
	target
	role, kind string
	key        string // file of the client's own key; empty: the gateway vouches
	parameters []string
	plan       gateway.PlanWords
	wait       string
	asJSON     forMachines
}

func newSubmit() *cobra.Command {
	var s submission
	cmd := &cobra.Command{
		Use:   "submit [--home DIR | --socket PATH] [flags] (SQL | ID)",
		Short: "Submit one transaction",
		Long: `submit hands a transaction to the node and prints its id. With --wait it waits until the organisation's database committed its
block, and prints the outcome. SQL "-" is read from standard input.

Parameters are given in the order of $1, $2, …: TYPE:VALUE, with an empty TYPE to have it inferred; TYPE alone is NULL.

With --kind plan the statements run in a later block, from --not-before on and with --approvals. With --kind approve, cancel or
execute the argument is the id of such a plan.

` + exitHelp,
		Example: `  chainify submit --home acme --role bank --wait "UPDATE accounts SET balance = balance - 10 WHERE id = 7"
  chainify submit --home acme --role bank --wait 1m --param integer:7 --param text:x --param date \
      'INSERT INTO notes VALUES ($1, $2, $3)'
  chainify submit --home acme --role dba --kind deploy --wait "ATTACH TABLE public.accounts"
  chainify submit --home acme --role bank --kind plan --not-before 2027-01-31T09:00:00Z --approvals '2 OF (bolt, cargo)' --wait \
      'UPDATE savings SET balance = balance * 1.01'
  chainify submit --home bolt --role dba --kind approve --wait 7c6f3a…`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, args[0])
		},
	}
	s.flags(cmd)
	s.statementFlags(cmd)
	cmd.Flags().StringVar(&s.wait, "wait", "", "wait for the outcome, so long at most (without a value: "+waitDefault+")")
	cmd.Flags().Lookup("wait").NoOptDefVal = waitDefault
	s.asJSON.flag(cmd)
	return cmd
}

// statementFlags are those that say what is submitted, and as whom.
func (s *submission) statementFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.role, "role", "", "database role the transaction runs as (default: $PGUSER, or your own name)")
	cmd.Flags().StringVar(&s.key, "key", "", "file of the client's own key, registered for the role, to sign with (chainify client)")
	cmd.Flags().StringVar(&s.kind, "kind", "sql", "sql, or deploy for statements that change definitions, ATTACH TABLE and DETACH TABLE; plan, approve, cancel or execute for planned transactions")
	cmd.Flags().StringVar(&s.plan.NotBefore, "not-before", "", "with --kind plan: first time of a block that may run it, as 2027-01-31T09:00:00Z (default: at once)")
	cmd.Flags().StringVar(&s.plan.Expires, "expires", "", "with --kind plan: time from which on no block runs it (default: 30 days after its start)")
	cmd.Flags().StringVar(&s.plan.Approvals, "approvals", "", "with --kind plan: policy of the organisations that have to approve (default: none)")
	cmd.Flags().StringArrayVar(&s.parameters, "param", nil, "TYPE:VALUE, or TYPE for NULL; once for each parameter")
}

func (s *submission) run(cmd *cobra.Command, text string) error {
	if text == "-" {
		read, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), wire.ProposalBytesMax+1))
		if err != nil {
			return fmt.Errorf("read SQL: %w", err)
		}
		text = string(read)
	}
	statement, err := s.statement(text)
	if err != nil {
		return err
	}
	wait, err := s.waitTime()
	if err != nil {
		return err
	}
	client, err := s.dial(cmd.Context())
	if err != nil {
		return err
	}
	defer client.Close()
	id, err := s.submit(cmd.Context(), client, statement)
	if err != nil {
		return err
	}
	if wait == 0 {
		return s.printID(cmd.OutOrStdout(), id)
	}
	outcomes, err := client.Wait(cmd.Context(), uint32(wait.Milliseconds()), id)
	if err != nil {
		return fmt.Errorf("transaction %x is submitted, its outcome is unknown: %w", id, err)
	}
	return s.printOutcome(cmd.OutOrStdout(), id, outcomes, wait)
}

func (s *submission) submit(ctx context.Context, client *gateway.Client, statement *wire.Statement) ([]byte, error) {
	if s.key != "" {
		return s.submitSigned(ctx, client, statement)
	}
	ids, err := client.Submit(ctx, s.roleName(), statement)
	if err != nil {
		return nil, err
	}
	return ids[0], nil
}

func randomNonce() (uint64, error) {
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return 0, fmt.Errorf("random nonce: %w", err)
	}
	return binary.BigEndian.Uint64(nonce[:]), nil
}

func (s *submission) statement(text string) (*wire.Statement, error) {
	out := &wire.Statement{Sql: text}
	if s.plan != (gateway.PlanWords{}) && s.kind != "plan" {
		return nil, usageError("--not-before, --expires and --approvals are for --kind plan")
	}
	switch s.kind {
	case "sql":
		out.Kind = wire.Kind_KIND_SQL
	case "deploy":
		out.Kind = wire.Kind_KIND_DEPLOY
	case "plan", "approve", "cancel", "execute":
		words := s.plan
		if words.Action = s.kind; s.kind != "plan" {
			words.Planned, out.Sql = text, ""
		}
		plan, err := words.Plan()
		if err != nil {
			return nil, usageError("%v", err)
		}
		out.Kind, out.Plan = wire.Kind_KIND_PLAN, plan
	default:
		return nil, usageError("--kind: %q is not sql, deploy, plan, approve, cancel or execute", s.kind)
	}
	for _, p := range s.parameters {
		typ, value, given := strings.Cut(p, ":")
		out.Parameters = append(out.Parameters, &wire.Parameter{Type: typ, Text: value, Null: !given})
	}
	return out, nil
}

func (s *submission) waitTime() (time.Duration, error) {
	if s.wait == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s.wait)
	if err != nil || d < time.Millisecond || d > 10*time.Minute {
		return 0, usageError("--wait: %q is not a duration between 1ms and 10m", s.wait)
	}
	return d, nil
}

func (s *submission) roleName() string {
	if s.role != "" {
		return s.role
	}
	if name := os.Getenv("PGUSER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

func (s *submission) printID(out io.Writer, id []byte) error {
	if s.asJSON {
		return printJSON(out, map[string]any{"id": hex.EncodeToString(id)})
	}
	_, err := fmt.Fprintf(out, "%x\n", id)
	return err
}

func (s *submission) printOutcome(out io.Writer, id []byte, outcomes []*wire.Outcome, wait time.Duration) error {
	if len(outcomes) == 0 {
		if err := s.printID(out, id); err != nil {
			return err
		}
		return &exitError{exitUnreachable, fmt.Errorf("no outcome within %s; it may still come", wait)}
	}
	o := outcomes[0]
	if s.asJSON {
		r := wire.TxResult{
			ID: wire.TxID(o.Id), Block: o.Block, Index: o.Index, Succeeded: o.Succeeded, Rows: o.Rows, SQLState: o.Sqlstate, Message: o.Message,
		}
		if err := printJSON(out, gateway.TransactionOf(r)); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(out, outcomeLine(o))
	}
	if !o.Succeeded {
		return &exitError{code: exitFailed}
	}
	return nil
}

func outcomeLine(o *wire.Outcome) string {
	switch {
	case o.Succeeded:
		return fmt.Sprintf("%x committed in block %d: %s", o.Id, o.Block, plural(o.Rows, "row"))
	case o.Block == 0:
		return fmt.Sprintf("%x refused by the order, it has no effects: %s (SQLSTATE %s)", o.Id, o.Message, o.Sqlstate)
	default:
		return fmt.Sprintf("%x failed in block %d, it has no effects: %s (SQLSTATE %s)", o.Id, o.Block, o.Message, o.Sqlstate)
	}
}

func newStatus() *cobra.Command {
	var t target
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:   "status [--home DIR | --socket PATH]",
		Short: "Show the condition of the node, faults first",
		Long: `status asks the node over its socket. The exit code is 0 when nothing is wrong, 1 when something is.

` + exitHelp,
		Example: `  chainify status --home /var/lib/chainify
  chainify status --socket /run/chainify/node.sock --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := asked(cmd.Context(), &t, (*gateway.Client).Status)
			if err != nil {
				return err
			}
			wrong := health.Wrong(s)
			err = asJSON.print(cmd, statusJSON{gateway.StatusOfNode(s), append([]string{}, wrong...)}, func(out io.Writer) {
				io.WriteString(out, statusScreen(s, wrong))
			})
			return failUnless(len(wrong) == 0, err)
		},
	}
	t.flags(cmd)
	asJSON.flag(cmd)
	return cmd
}

type statusJSON struct {
	gateway.Status
	Wrong []string `json:"wrong"`
}

func statusScreen(s *wire.StatusResponse, wrong []string) string {
	var b strings.Builder
	verdict := "ok"
	if len(wrong) > 0 {
		verdict = plural(len(wrong), "problem")
	}
	fmt.Fprintf(&b, "%s on chain %s: %s\n", s.Organisation, s.ChainId, verdict)
	for _, w := range wrong {
		fmt.Fprintf(&b, "  ! %s\n", w)
	}
	note := s.Reason
	if strings.Contains(strings.Join(wrong, "\n"), note) {
		note = ""
	}
	for _, line := range [][2]string{
		{"state", s.State},
		{"height", fmt.Sprint(s.Height)},
		{"ledger blocks", fmt.Sprintf("%d ordered, %d certified, %d committed", s.LastOrdered, s.LastCertified, s.LastCommitted)},
		{"consent", fmt.Sprintf("%d of %s", s.Consent, plural(s.Organisations, "organisation"))},
		{"nodes connected", fmt.Sprint(s.Peers)},
		{"version", s.Version},
		{"note", note},
		{"protocol", protocolLine(s.Protocol)},
		{"others know", othersKnow(s.Protocol)},
		{"others lean on", health.OthersLeanOn(s.Environment)},
		{"evidence", evidenceLine(s.Evidence)},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "%-16s %s\n", line[0], line[1])
		}
	}
	return b.String()
}

// evidenceLine says where to look; empty: the node keeps none.
func evidenceLine(pieces uint64) string {
	switch pieces {
	case 0:
		return ""
	case 1:
		return "1 piece against an organisation: chainify evidence"
	}
	return fmt.Sprintf("%d pieces against organisations: chainify evidence", pieces)
}
