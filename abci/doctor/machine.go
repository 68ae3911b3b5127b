package doctor

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/health"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	dialLimit   = 2 * time.Second
	diskBad     = 512 << 20
	diskWarn    = 5 << 30
	bytesPerGiB = 1 << 30
)

// machine holds facts about the machine and the network.
type machine struct {
	running      bool                   // a node answers on the socket
	registry     *wire.RegistryResponse // as it says; nil: it does not
	protocol     *wire.ProtocolStatus
	environment  []*wire.EnvironmentDifference
	socketError  error
	taken        map[string]error // addresses to listen on that cannot be had, of a node that does not run
	unreachable  map[string]error // peers
	diskFree     uint64
	diskError    error
	clockSynced  bool
	clockUnknown error
	peerUID      func(dsnHost string, port uint16) (uid uint32, ok bool)
}

func readMachine(ctx context.Context, home config.Home, c config.Config) machine {
	m := machine{taken: map[string]error{}, unreachable: map[string]error{}, peerUID: ownerOfServerSocket}
	limited, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	if client, err := gateway.Dial(limited, home.Path(c.Clients.Socket)); err == nil {
		m.running = true
		if r, err := client.Registry(limited); err == nil {
			m.registry = r
		}
		if s, err := client.Status(limited); err == nil {
			m.protocol, m.environment = s.Protocol, s.Environment
		}
		_ = client.Close()
	} else if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
		m.socketError = err
	}
	if !m.running {
		for key, address := range listening(c) {
			if l, err := net.Listen("tcp", address); err != nil {
				m.taken[key] = err
			} else {
				_ = l.Close()
			}
		}
	}
	for _, peer := range c.Network.Peers {
		_, address, _ := strings.Cut(peer, "@")
		if conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", address); err != nil {
			m.unreachable[address] = err
		} else {
			_ = conn.Close()
		}
	}
	var fs unix.Statfs_t
	if m.diskError = unix.Statfs(home.Data(), &fs); m.diskError == nil {
		m.diskFree = fs.Bavail * uint64(fs.Bsize)
	}
	var clock unix.Timex
	state, err := unix.Adjtimex(&clock)
	m.clockSynced, m.clockUnknown = state != unix.TIME_ERROR && clock.Status&unix.STA_UNSYNC == 0, err
	return m
}

// listening are the addresses that the node listens on.
func listening(c config.Config) map[string]string {
	out := map[string]string{"network.listen": c.Network.Listen}
	for key, address := range map[string]string{"http.listen": c.HTTP.Listen, "metrics.listen": c.Metrics.Listen, "network.rpc_listen": c.Network.RPCListen, "explorer.listen": c.Explorer.Listen} {
		if address != "" {
			out[key] = address
		}
	}
	return out
}

func judgeMachine(m machine, c config.Config) []Finding {
	return []Finding{judgeNode(m), judgeProtocol(m.protocol), judgeEnvironment(m), judgePorts(m, c), judgePeers(m, c), judgeDisk(m), judgeClock(m)}
}

func judgeNode(m machine) Finding {
	const check = "node"
	switch {
	case m.running:
		return fine(check, `runs; "chainify status" says how it stands`)
	case m.socketError != nil:
		return warn(check, m.socketError.Error(), "Run as one of the users in clients.users.")
	}
	return warn(check, "does not run", `Start it: "chainify start", or the service that does.`)
}

// judgeProtocol: this program and those of the other organisations know the version of the protocol
// that comes. p is nil when no node tells.
func judgeProtocol(p *wire.ProtocolStatus) Finding {
	const check = "protocol"
	switch {
	case p == nil:
		return fine(check, "its version is known when the node runs")
	case p.Next == 0:
		return fine(check, "version %d, and none comes", p.InForce)
	case p.Next > p.Known:
		return bad(check, fmt.Sprintf("version %d comes into force at order height %d, and this program knows versions up to %d", p.Next, p.NextHeight, p.Known),
			"Install a release that knows it before: docs/operator/upgrades.md. The node stops at that height otherwise.")
	}
	late, silent := health.Unready(p)
	var unready []string
	if len(late) > 0 {
		names := make([]string, len(late))
		for i, o := range late {
			names[i] = o.Organisation
		}
		unready = append(unready, fmt.Sprintf("the nodes of %s do not know it", strings.Join(names, ", ")))
	}
	if len(silent) > 0 {
		unready = append(unready, fmt.Sprintf("no node of %s is connected", strings.Join(silent, ", ")))
	}
	if len(unready) > 0 {
		return warn(check, fmt.Sprintf("version %d comes into force at order height %d, and %s", p.Next, p.NextHeight, strings.Join(unready, ", and ")),
			"Have them install a release that knows it, or withdraw the change: docs/operator/upgrades.md.")
	}
	return fine(check, "version %d, and version %d comes into force at order height %d", p.InForce, p.Next, p.NextHeight)
}

// judgeEnvironment: the databases of all organisations lean on the same libraries and extensions.
func judgeEnvironment(m machine) Finding {
	const check = "environment"
	switch {
	case m.protocol == nil:
		return fine(check, "it is compared with that of other organisations when the node runs")
	case len(m.environment) == 0:
		return fine(check, "no connected organisation tells of a difference")
	}
	return warn(check, "other organisations have other libraries or extensions: "+health.OthersLeanOn(m.environment),
		"Have all install the same versions: docs/differences.md says what each may change.")
}

func judgePorts(m machine, c config.Config) Finding {
	const check = "ports"
	for _, key := range sorted(m.taken) {
		return bad(check, fmt.Sprintf("%s: %v", key, m.taken[key]), "End what has the port (ss -ltnp), or choose another address in "+config.FileName+".")
	}
	if m.running {
		return fine(check, "the node has them")
	}
	return fine(check, "%d are free", len(listening(c)))
}

func judgePeers(m machine, c config.Config) Finding {
	const check = "peers"
	for _, address := range sorted(m.unreachable) {
		return warn(check, fmt.Sprintf("%d of %d are not reached: %v", len(m.unreachable), len(c.Network.Peers), m.unreachable[address]),
			"Is the other node running? Do firewalls let TCP through, one way at least? Is the address in network.peers theirs?")
	}
	return fine(check, "%d of %d are reached", len(c.Network.Peers), len(c.Network.Peers))
}

func judgeDisk(m machine) Finding {
	const check, mend = "disk", "Make room where the node's data/ is: a full disk ends the node."
	switch {
	case m.diskError != nil:
		return bad(check, m.diskError.Error(), `Is the home whole? "chainify init" makes data/.`)
	case m.diskFree < diskBad:
		return bad(check, fmt.Sprintf("%.1f GiB are free", float64(m.diskFree)/bytesPerGiB), mend)
	case m.diskFree < diskWarn:
		return warn(check, fmt.Sprintf("%.1f GiB are free", float64(m.diskFree)/bytesPerGiB), mend)
	}
	return fine(check, "%.0f GiB are free", float64(m.diskFree)/bytesPerGiB)
}

func judgeClock(m machine) Finding {
	const check = "clock"
	switch {
	case m.clockUnknown != nil:
		return warn(check, "the kernel does not tell: "+m.clockUnknown.Error(), "Make sure that the machine's clock is kept right (NTP).")
	case !m.clockSynced:
		return warn(check, "the kernel says that nothing keeps the clock right", "Run an NTP client, as chrony or systemd-timesyncd: a node a minute behind the others ends.")
	}
	return fine(check, "is kept right")
}

// judgeKeys: the home holds the gateway key and a validator key that count, or a remote signer has
// the latter. members are those of now, of a node that runs.
func judgeKeys(home config.Home, organisation string, remote bool, members []*wire.Member) Finding {
	const check = "keys"
	at := slices.IndexFunc(members, func(m *wire.Member) bool { return m.Organisation == organisation })
	if at < 0 {
		return fine(check, "which of them count is known when the node runs and the organisation takes part")
	}
	gateways, err := home.GatewayKeys()
	if err != nil {
		return bad(check, err.Error(), "Take the key from its backup.")
	}
	validators, err := home.ValidatorIDs()
	if remote {
		validators, err = nil, nil
	}
	if err != nil {
		return bad(check, err.Error(), "Take the key from its backup.")
	}
	own, idle := 0, len(gateways)+len(validators)
	for _, key := range gateways {
		if bytes.Equal(key.Public().(ed25519.PublicKey), members[at].GatewayKey) {
			own, idle = own+1, idle-1
		}
	}
	if own == 0 && !members[at].OrderingOnly {
		return bad(check, fmt.Sprintf("the gateway key of %q is not among those of the home: it takes no transactions and approves nothing", organisation), "Take it from its backup, or from the organisation's other node.")
	}
	signs := false
	for _, id := range validators {
		key, err := home.ReadValidator(id)
		if err != nil {
			return bad(check, err.Error(), "Take the key from its backup.")
		}
		if slices.ContainsFunc(members[at].Validators, func(v *wire.ValidatorPower) bool { return bytes.Equal(v.Key, key.Key.PubKey.Bytes()) }) {
			signs, idle = true, idle-1
		}
	}
	switch {
	case remote:
		return fine(check, "the gateway key is there; a signer that connects has the validator's")
	case !signs:
		return warn(check, fmt.Sprintf("no validator key of the home is one of %q: this node follows and does not vote", organisation), "Take the key from its backup, if this is the organisation's validator.")
	case idle > 0:
		return fine(check, "those that count are there, and %d that do not, or not yet (chainify org list)", idle)
	}
	return fine(check, "those that count are there")
}
