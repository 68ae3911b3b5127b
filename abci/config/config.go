// Package config is a node's configuration: one commented file, chainify.toml, in the node's home.
// It derives CometBFT's configuration from that file in memory, so that no second file can differ.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// FileName is the configuration's name in a home.
const FileName = "chainify.toml"

// Config is the contents of chainify.toml. The meaning of each setting stands in template.toml,
// beside its value.
type Config struct {
	Organisation string    `toml:"organisation"`
	Mode         Mode      `toml:"mode"`
	Database     Database  `toml:"database"`
	Clients      Clients   `toml:"clients"`
	HTTP         HTTP      `toml:"http"`
	Metrics      Metrics   `toml:"metrics"`
	Explorer     Explorer  `toml:"explorer"`
	Gateway      Gateway   `toml:"gateway"`
	Effects      Effects   `toml:"effects"`
	Recovery     Recovery  `toml:"recovery"`
	Retention    Retention `toml:"retention"`
	Anchor       Anchor    `toml:"anchor"`
	Network      Network   `toml:"network"`
	Consensus    Consensus `toml:"consensus"`
	Keys         Keys      `toml:"keys"`
	CometBFT     CometBFT  `toml:"cometbft"`
	Log          Log       `toml:"log"`
}

// Database is where the organisation's tables are.
type Database struct {
	DSN        string   `toml:"dsn"` // empty: the node only orders
	StuckAfter Duration `toml:"stuck_after"`
	// SynchronousCommit is PostgreSQL's setting of that name for the COMMIT of a block.
	SynchronousCommit string `toml:"synchronous_commit"`
	// The rest is for a MariaDB; PostgreSQL has settings of these names.
	ScrubInterval      Duration `toml:"scrub_interval"`
	ScrubRate          int      `toml:"scrub_rate"`          // rows a second; 0: never
	CheckpointInterval int      `toml:"checkpoint_interval"` // blocks; 0: the base stays where it is
	CheckpointsKept    int      `toml:"checkpoints_kept"`
}

// Clients is the Unix socket for PostgreSQL's backends and the command line.
type Clients struct {
	Socket         string   `toml:"socket"`
	SocketMode     string   `toml:"socket_mode"` // octal
	Users          []string `toml:"users"`       // names or numbers
	ConnectionsMax int      `toml:"connections_max"`
	RequestsMax    int      `toml:"requests_max"`
	WaitsMax       int      `toml:"waits_max"`
}

// Metrics is where Prometheus asks.
type Metrics struct {
	Listen string `toml:"listen"` // empty: off
}

// Explorer is the web page for people.
type Explorer struct {
	Listen      string   `toml:"listen"` // empty: off
	TLSCertFile string   `toml:"tls_cert_file"`
	TLSKeyFile  string   `toml:"tls_key_file"`
	DSN         string   `toml:"dsn"` // empty: the database's
	Hosts       []string `toml:"hosts"`
}

// ReaderRole is the role of tokens that open the explorer beyond loopback: its pages are read as
// this role.
const ReaderRole = "chainify_reader"

// ExplorerListen is where the explorer listens when nothing else is said.
const ExplorerListen = "127.0.0.1:26690"

// Gateway tunes bundling and bounds the queue.
type Gateway struct {
	PendingMax         int      `toml:"pending_max"`
	PendingBytesMax    int      `toml:"pending_bytes_max"`
	BundleTransactions int      `toml:"bundle_transactions"`
	BundleBytes        int      `toml:"bundle_bytes"`
	BundleDelay        Duration `toml:"bundle_delay"`
	ValidityBlocks     uint64   `toml:"validity_blocks"`
	StallAfter         Duration `toml:"stall_after"`
	OutcomesKept       int      `toml:"outcomes_kept"`
	ClientRate         float64  `toml:"client_rate"`
	ClientBurst        int      `toml:"client_burst"`
}

// Effects bounds the effect consensus' waits.
type Effects struct {
	VoteTimeout Duration `toml:"vote_timeout"`
	OpenMax     Duration `toml:"open_max"`
}

// Recovery says how a database that deviates comes back, and how others are helped.
type Recovery struct {
	Steps []string `toml:"steps"`
	// FullBlocksMax: step full begins by itself only in a database of at most so many blocks; 0:
	// never, -1: of any number.
	FullBlocksMax int64    `toml:"full_blocks_max"`
	FullNotice    Duration `toml:"full_notice"` // it is announced for so long before
	RepairsMax    int      `toml:"repairs_max"`
	HelpAttempts  int      `toml:"help_attempts"`
	TellRate      int      `toml:"tell_rate"` // bytes a second; 0: others are told nothing
	TellLimit     Duration `toml:"tell_limit"`
}

// Retention says what of the past the node keeps.
type Retention struct {
	OrderBlocks int64 `toml:"order_blocks"` // 0: all
	Snapshots   int   `toml:"snapshots"`    // 0: none
	// Archive is a directory or the URL of an S3-compatible store; empty: there is none.
	Archive                  string   `toml:"archive"`
	ArchiveS3Region          string   `toml:"archive_s3_region"`
	ArchiveS3CredentialsFile string   `toml:"archive_s3_credentials_file"` // empty: from the environment
	ArchiveEvery             Duration `toml:"archive_every"`
	HistoryBlocks            uint64   `toml:"history_blocks"` // 0: all
}

// Anchor says where digests of the ledger are taken to, and how often.
type Anchor struct {
	Every       Duration `toml:"every"`
	VerifyEvery Duration `toml:"verify_every"` // 0: never
	Directory   string   `toml:"directory"`    // empty: none
	URL         string   `toml:"url"`          // empty: none
	TokenFile   string   `toml:"token_file"`   // empty: no token
	// S3Region is that of an S3-compatible store at URL, which wants requests signed; empty: it is
	// none.
	S3Region          string `toml:"s3_region"`
	S3CredentialsFile string `toml:"s3_credentials_file"` // empty: from the environment
}

// Network is how the node reaches the other organisations'.
type Network struct {
	Listen          string   `toml:"listen"`
	ExternalAddress string   `toml:"external_address"`
	Peers           []string `toml:"peers"`         // id@host:port
	AdmittedFile    string   `toml:"admitted_file"` // empty: none
	StrictAddresses bool     `toml:"strict_addresses"`
	GossipSleep     Duration `toml:"gossip_sleep"`
	FlushThrottle   Duration `toml:"flush_throttle"`
	SendRate        int64    `toml:"send_rate"`
	RecvRate        int64    `toml:"recv_rate"`
	RPCListen       string   `toml:"rpc_listen"` // empty: off
}

// Consensus are CometBFT's timeouts that we set otherwise than it does.
type Consensus struct {
	TimeoutPropose   Duration `toml:"timeout_propose"`
	TimeoutPrevote   Duration `toml:"timeout_prevote"`
	TimeoutPrecommit Duration `toml:"timeout_precommit"`
	TimeoutDelta     Duration `toml:"timeout_delta"`
	TimeoutCommit    Duration `toml:"timeout_commit"`
	Gather           Duration `toml:"gather"`
	// ExpressLane sends this node's own messages to all others at once, and tells later what only
	// gossip needs.
	ExpressLane bool `toml:"express_lane"`
	// SignerListen is where a process with the validator key connects; empty: the home has the key.
	SignerListen string `toml:"signer_listen"`
}

// Keys says where the organisation's keys are.
type Keys struct {
	// Holder is where a key holder has validator and gateway key; empty: the home has them.
	Holder string `toml:"holder"`
}

// Log says what is logged, to standard error.
type Log struct {
	Level      string `toml:"level"`
	CometLevel string `toml:"cometbft_level"`
	Format     string `toml:"format"` // text, json
}

// Duration is written as Go writes durations: 5ms, 1.5s, 2m.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as \"5ms\" or \"2m\"", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes a duration in its shortest form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string {
	s := time.Duration(d).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Default is the configuration of a fresh home of an organisation.
func Default(organisation string) Config {
	g, h := gateway.DefaultLimits(), gateway.DefaultHTTPLimits()
	c := Config{
		Organisation: organisation,
		Database: Database{
			StuckAfter: Duration(time.Minute), SynchronousCommit: "on", ScrubInterval: Duration(10 * time.Minute), ScrubRate: 50_000,
			CheckpointInterval: 100, CheckpointsKept: 3,
		},
		Clients: Clients{
			Socket: "node.sock", SocketMode: "0666", Users: defaultUsers(), ConnectionsMax: 500, RequestsMax: 64, WaitsMax: g.WaitsMax,
		},
		HTTP: HTTP{
			Listen: "127.0.0.1:26680", TLSClients: map[string]string{}, TokensFile: "config/tokens.json",
			ConnectionsMax: h.Connections, RequestsMax: h.Requests, StrangersMax: h.Strangers,
		},
		Metrics:  Metrics{Listen: "127.0.0.1:26660"},
		Explorer: Explorer{Hosts: []string{}},
		Gateway: Gateway{
			PendingMax: g.PendingMax, PendingBytesMax: g.PendingBytesMax, BundleTransactions: g.BundleTransactions,
			BundleBytes: g.BundleBytes, ValidityBlocks: g.ValidityBlocks,
			StallAfter: Duration(g.StallAfter), OutcomesKept: g.OutcomesKept,
			ClientBurst: g.ClientBurst,
		},
		Effects:   Effects{VoteTimeout: Duration(time.Second), OpenMax: Duration(5 * time.Second)},
		Retention: Retention{Snapshots: 10, ArchiveEvery: Duration(time.Hour)},
		Anchor:    Anchor{Every: Duration(time.Hour), VerifyEvery: Duration(24 * time.Hour)},
		Recovery:  Recovery{Steps: stepNames(), FullBlocksMax: 100, FullNotice: Duration(10 * time.Second), RepairsMax: 3, HelpAttempts: 10, TellRate: 8 << 20, TellLimit: Duration(peers.SessionLimit)},
		Network: Network{
			Listen: "0.0.0.0:26656", Peers: []string{}, AdmittedFile: "config/admitted", StrictAddresses: true,
			SendRate: 64 << 20, RecvRate: 64 << 20,
		},
		Consensus: Consensus{
			TimeoutPropose: Duration(300 * time.Millisecond), TimeoutPrevote: Duration(100 * time.Millisecond),
			TimeoutPrecommit: Duration(100 * time.Millisecond), TimeoutDelta: Duration(100 * time.Millisecond),
		},
		Log: Log{Level: "info", CometLevel: "error", Format: "text"},
	}
	c.take(Balanced)
	return c
}

// defaultUsers are the users that usually connect: PostgreSQL's server and the user of the node.
func defaultUsers() []string {
	users := []string{}
	if u, err := user.Current(); err == nil {
		users = append(users, u.Username)
	}
	if _, err := user.Lookup("postgres"); err == nil && (len(users) == 0 || users[0] != "postgres") {
		users = append(users, "postgres")
	}
	return users
}

// Load reads and checks the configuration of a home. Errors name the file, the line where one is
// known, and the key.
func Load(home string) (Config, error) {
	path := filepath.Join(home, FileName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Config{}, fmt.Errorf("%s is not a node's home: it has no %s (make one with \"chainify init\")", home, FileName)
	}
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads and checks a configuration. Settings left out have the mode's values, or their
// defaults; unknown keys are errors.
func Parse(text []byte) (Config, error) {
	c := Default("")
	var chosen struct {
		Mode Mode `toml:"mode"`
	}
	if toml.Unmarshal(text, &chosen) == nil && chosen.Mode != "" { // what else is wrong is said below
		if err := c.Tune(chosen.Mode); err != nil {
			return Config{}, err
		}
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Config{}, explain(err)
	}
	if err := c.Check(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// explain turns the decoder's errors into lines "line 7: …", one for each unknown key.
func explain(err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var all []error
		for _, e := range unknown.Errors {
			line, _ := e.Position()
			all = append(all, fmt.Errorf("line %d: unknown setting %q", line, strings.Join(e.Key(), ".")))
		}
		return errors.Join(all...)
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		key := strings.Join(bad.Key(), ".")
		if key != "" {
			return fmt.Errorf("line %d: setting %q: %s", line, key, strings.TrimPrefix(bad.Error(), "toml: "))
		}
		return fmt.Errorf("line %d: %s", line, strings.TrimPrefix(bad.Error(), "toml: "))
	}
	return err
}

// synchronousCommits are the values that PostgreSQL's setting has.
var synchronousCommits = []string{"on", "local", "remote_write", "remote_apply", "off"}

// Check says what is wrong with a configuration.
func (c *Config) Check() error {
	if err := wire.CheckOrganisation(c.Organisation); err != nil {
		return err
	}
	if err := c.checkPositive(); err != nil {
		return err
	}
	if !slices.Contains(synchronousCommits, c.Database.SynchronousCommit) {
		return fmt.Errorf("database.synchronous_commit: must be one of %s", strings.Join(synchronousCommits, ", "))
	}
	if c.Database.ScrubRate < 0 {
		return errors.New("database.scrub_rate: must not be negative")
	}
	if c.Database.CheckpointInterval < 0 {
		return errors.New("database.checkpoint_interval: must not be negative")
	}
	if c.Consensus.Gather < 0 || c.Consensus.Gather > c.Consensus.TimeoutPropose/2 {
		return errors.New("consensus.gather: must not be negative, nor more than half of timeout_propose, after which others propose")
	}
	if _, err := c.RecoverySteps(); err != nil {
		return err
	}
	if c.Recovery.FullBlocksMax < -1 {
		return errors.New("recovery.full_blocks_max: must not be below -1, which allows any number")
	}
	if c.Recovery.FullNotice < 0 {
		return errors.New("recovery.full_notice: must not be negative")
	}
	if r := c.Recovery.TellRate; r != 0 && r < tellRateMin {
		return fmt.Errorf("recovery.tell_rate: %d, want at least %d, or 0 to tell nothing: whoever asks gives up one that is slower", r, tellRateMin)
	}
	if n := c.Retention.OrderBlocks; n != 0 && n < orderBlocksMin {
		return fmt.Errorf("retention.order_blocks: %d, want at least %d, or 0 to keep all", n, orderBlocksMin)
	}
	if n := c.Retention.Snapshots; n < 0 || n > snapshotsMax {
		return fmt.Errorf("retention.snapshots: %d, want 0 to %d: CometBFT tells others no more", n, snapshotsMax)
	}
	if err := c.Retention.checkArchive(); err != nil {
		return err
	}
	if err := c.checkAnchor(); err != nil {
		return err
	}
	if err := c.GatewayLimits().Check(); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if _, err := c.SocketMode(); err != nil {
		return err
	}
	if _, err := c.AllowedUIDs(); err != nil {
		return err
	}
	if _, err := LogLevel(c.Log.Level); err != nil {
		return fmt.Errorf("log.level: %w", err)
	}
	if _, err := LogLevel(c.Log.CometLevel); err != nil {
		return fmt.Errorf("log.cometbft_level: %w", err)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		return fmt.Errorf("log.format: %q is neither \"text\" nor \"json\"", c.Log.Format)
	}
	if err := c.checkAddresses(); err != nil {
		return err
	}
	return errors.Join(c.HTTP.check(), c.checkExplorer())
}

// checkPositive reports the first limit that is not above 0.
func (c *Config) checkPositive() error {
	for _, positive := range []struct {
		key   string
		value int64
	}{
		{"database.stuck_after", int64(c.Database.StuckAfter)},
		{"database.scrub_interval", int64(c.Database.ScrubInterval)},
		{"database.checkpoints_kept", int64(c.Database.CheckpointsKept)},
		{"clients.connections_max", int64(c.Clients.ConnectionsMax)},
		{"clients.requests_max", int64(c.Clients.RequestsMax)},
		{"clients.waits_max", int64(c.Clients.WaitsMax)},
		{"http.connections_max", int64(c.HTTP.ConnectionsMax)},
		{"http.requests_max", int64(c.HTTP.RequestsMax)},
		{"http.strangers_max", int64(c.HTTP.StrangersMax)},
		{"gateway.pending_max", int64(c.Gateway.PendingMax)},
		{"gateway.pending_bytes_max", int64(c.Gateway.PendingBytesMax)},
		{"gateway.bundle_transactions", int64(c.Gateway.BundleTransactions)},
		{"gateway.bundle_bytes", int64(c.Gateway.BundleBytes)},
		{"gateway.validity_blocks", int64(min(c.Gateway.ValidityBlocks, 1<<62))},
		{"gateway.stall_after", int64(c.Gateway.StallAfter)},
		{"gateway.outcomes_kept", int64(c.Gateway.OutcomesKept)},
		{"gateway.client_burst", int64(c.Gateway.ClientBurst)},
		{"effects.vote_timeout", int64(c.Effects.VoteTimeout)},
		{"effects.open_max", int64(c.Effects.OpenMax)},
		{"anchor.every", int64(c.Anchor.Every)},
		{"recovery.repairs_max", int64(c.Recovery.RepairsMax)},
		{"recovery.help_attempts", int64(c.Recovery.HelpAttempts)},
		{"recovery.tell_limit", int64(c.Recovery.TellLimit)},
		{"network.gossip_sleep", int64(c.Network.GossipSleep)},
		{"network.flush_throttle", int64(c.Network.FlushThrottle)},
		{"network.send_rate", c.Network.SendRate},
		{"network.recv_rate", c.Network.RecvRate},
		{"consensus.timeout_propose", int64(c.Consensus.TimeoutPropose)},
		{"consensus.timeout_prevote", int64(c.Consensus.TimeoutPrevote)},
		{"consensus.timeout_precommit", int64(c.Consensus.TimeoutPrecommit)},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("%s: must be positive", positive.key)
		}
	}
	return nil
}

func (c *Config) checkAnchor() error {
	if c.Anchor.VerifyEvery < 0 {
		return errors.New("anchor.verify_every: must not be negative")
	}
	switch a := c.Anchor; {
	case a.S3Region == "" && a.S3CredentialsFile != "":
		return errors.New("anchor.s3_credentials_file: needs s3_region")
	case a.S3Region != "" && a.TokenFile != "":
		return errors.New("anchor: s3_region and token_file are different ways to show who asks, set one of them")
	case a.S3Region != "" && a.URL == "":
		return errors.New("anchor.s3_region: url, that of the bucket, is empty")
	case a.URL == "":
		return nil
	}
	if _, err := anchor.NewHTTP(c.Anchor.URL, ""); err != nil {
		return fmt.Errorf("anchor.url: %w", err)
	}
	u, err := url.Parse(c.Anchor.URL)
	switch {
	case err != nil:
		return fmt.Errorf("anchor.url: %w", err)
	case u.Scheme != "https" && c.Anchor.TokenFile != "":
		return fmt.Errorf("anchor.url: %q is not https, and would carry the token of token_file in clear", u.Redacted())
	case u.Scheme != "https" && u.User != nil:
		return fmt.Errorf("anchor.url: %q is not https, and would carry the password in clear", u.Redacted())
	}
	return nil
}

func (c *Config) checkAddresses() error {
	for _, a := range []struct{ key, value string }{
		{"network.listen", c.Network.Listen},
		{"network.external_address", c.Network.ExternalAddress},
		{"network.rpc_listen", c.Network.RPCListen},
		{"http.listen", c.HTTP.Listen},
		{"metrics.listen", c.Metrics.Listen},
		{"explorer.listen", c.Explorer.Listen},
	} {
		if a.value == "" && a.key != "network.listen" {
			continue
		}
		if _, _, err := net.SplitHostPort(a.value); err != nil {
			return fmt.Errorf("%s: %q is not host:port", a.key, a.value)
		}
	}
	if c.Network.RPCListen != "" && !onLoopback(c.Network.RPCListen) {
		return fmt.Errorf("network.rpc_listen: %q is not on loopback, and CometBFT's RPC asks nobody who he is; reach it through a tunnel", c.Network.RPCListen)
	}
	if a := c.Consensus.SignerListen; a != "" {
		if err := CheckSignerAddress(a); err != nil {
			return fmt.Errorf("consensus.signer_listen: %w", err)
		}
		if host, tcp := strings.CutPrefix(a, "tcp://"); tcp && !onLoopback(host) {
			return fmt.Errorf("consensus.signer_listen: %q is not on loopback, and nothing shows which signer connects; reach it through a tunnel", a)
		}
	}
	if err := c.checkKeys(); err != nil {
		return err
	}
	if err := c.checkCometBFT(); err != nil {
		return err
	}
	for i, p := range c.Network.Peers {
		id, address, ok := strings.Cut(p, "@")
		if _, _, err := net.SplitHostPort(address); !ok || len(id) != 40 || err != nil {
			return fmt.Errorf("network.peers[%d]: %q is not node-id@host:port", i, p)
		}
	}
	return nil
}

// tellRateMin is far above what the asking side takes for no progress, also for two that are told
// at once.
const tellRateMin = 16 << 10

// OrderBlocksOfNew is how many order blocks the command line has a new home keep: those of more
// than two days at five a second. A setting left out keeps all, as in homes of before.
const OrderBlocksOfNew = 1_000_000

// orderBlocksMin is far above what a database executes again that lost its last blocks in a crash.
const orderBlocksMin = 1000

// GatewayLimits are the gateway's settings.
func (c *Config) GatewayLimits() gateway.Limits {
	g := c.Gateway
	return gateway.Limits{
		PendingMax: g.PendingMax, PendingBytesMax: g.PendingBytesMax, BundleTransactions: g.BundleTransactions,
		BundleBytes: g.BundleBytes, BundleDelay: time.Duration(g.BundleDelay), ValidityBlocks: g.ValidityBlocks,
		StallAfter: time.Duration(g.StallAfter), OutcomesKept: g.OutcomesKept, WaitsMax: c.Clients.WaitsMax,
		Rebroadcast: gateway.DefaultLimits().Rebroadcast, ClientRate: g.ClientRate, ClientBurst: g.ClientBurst,
	}
}

func stepNames() []string {
	var names []string
	for _, step := range backend.Steps() {
		names = append(names, step.String())
	}
	return names
}

// RecoverySteps are the steps of recovery, in order.
func (c *Config) RecoverySteps() ([]backend.Step, error) {
	var steps []backend.Step
	for i, name := range c.Recovery.Steps {
		step, known := backend.StepOf(name)
		switch {
		case !known:
			return nil, fmt.Errorf("recovery.steps[%d]: there is no step %q; steps are %s", i, name, strings.Join(stepNames(), ", "))
		case slices.Contains(steps, step):
			return nil, fmt.Errorf("recovery.steps[%d]: %q is there already", i, name)
		}
		if step != backend.Full || c.Recovery.FullBlocksMax != 0 {
			steps = append(steps, step)
		}
	}
	if len(steps) == 0 {
		return nil, errors.New("recovery.steps: none, so that nothing could be repaired")
	}
	return steps, nil
}

// SocketMode is the mode of the socket's file.
func (c *Config) SocketMode() (os.FileMode, error) {
	mode, err := strconv.ParseUint(c.Clients.SocketMode, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("clients.socket_mode: %q is not an octal file mode", c.Clients.SocketMode)
	}
	return os.FileMode(mode), nil
}

// AllowedUIDs are the operating-system users that may connect to the socket.
func (c *Config) AllowedUIDs() ([]uint32, error) {
	if len(c.Clients.Users) == 0 {
		return nil, errors.New("clients.users: nobody could connect")
	}
	uids := make([]uint32, len(c.Clients.Users))
	for i, name := range c.Clients.Users {
		number := name
		if u, err := user.Lookup(name); err == nil {
			number = u.Uid
		}
		uid, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("clients.users[%d]: no operating-system user %q", i, name)
		}
		uids[i] = uint32(uid)
	}
	return uids, nil
}

// LogLevel reads debug, info, warn, error.
func LogLevel(name string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil || strings.ContainsAny(name, "+-") {
		return 0, fmt.Errorf("%q is none of debug, info, warn, error", name)
	}
	return l, nil
}
