package peers

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/backend"
)

func TestEnvironmentsAreToldAndCompared(t *testing.T) {
	all := []*Environments{NewEnvironments(), NewEnvironments()}
	all[0].Tell(backend.Environment{"libc": "2.36", "build": "gcc 12", "icu": "72"}) // before it has peers
	switches := p2p.MakeConnectedSwitches(comet.TestP2PConfig(), 2, func(i int, s *p2p.Switch) *p2p.Switch {
		s.AddReactor(EnvironmentsName, all[i])
		return s
	}, p2p.Connect2Switches)
	for _, s := range switches {
		defer func() { _ = s.Stop() }()
	}
	first := switches[0].NodeInfo().ID()
	becomes := func(want ...backend.EnvironmentDifference) {
		t.Helper()
		deadline := time.Now().Add(testLimit)
		for !reflect.DeepEqual(all[1].Differences(first), want) {
			if time.Now().After(deadline) {
				t.Fatalf("%v, want %v", all[1].Differences(first), want)
			}
			time.Sleep(time.Millisecond)
		}
	}
	becomes()
	long := strings.Repeat("postgis 3.3, ", 100)
	all[1].Tell(backend.Environment{"libc": "2.41", "build": "clang", "icu": "72", "extensions": long})
	becomes(backend.EnvironmentDifference{Name: "extensions", Own: shortened(backend.Environment{"": long})[""]}, backend.EnvironmentDifference{Name: "libc", Own: "2.41", Other: "2.36"})
	all[0].Tell(backend.Environment{"libc": "2.41", "icu": "72", "extensions": long, "letters": "of\nde_DE\x1b[31m"}) // a newer one
	becomes(backend.EnvironmentDifference{Name: "letters", Other: "of de_DE [31m"})

	// A message that is no environment ends the connection.
	switches[0].Peers().Get(switches[1].NodeInfo().ID()).Send(p2p.Envelope{ChannelID: EnvironmentsChannel, Message: &types.BytesValue{Value: []byte("a\tb")}})
	for deadline := time.Now().Add(testLimit); switches[1].Peers().Size() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a peer that told no environment is still connected")
		}
	}
	becomes()
}

func TestAnEnvironmentIsReadAsItIsToldAndNotOtherwise(t *testing.T) {
	told := backend.Environment{"a": "", "b": "1", "c": strings.Repeat("x", environmentValueMax)}
	if read, err := decodeEnvironment(encodeEnvironment(told)); err != nil || !reflect.DeepEqual(read, told) {
		t.Errorf("read %v, %v", read, err)
	}
	var many []byte
	for i := range environmentLinesMax + 1 {
		many = fmt.Appendf(many, "n%02d\tx\n", i)
	}
	if _, err := decodeEnvironment(many[:len(many)-6]); err != nil {
		t.Errorf("as many lines as may be: %v", err)
	}
	for name, raw := range map[string][]byte{
		"too many lines": many, "no end": []byte("a\tb"), "no tab": []byte("ab\n"), "no name": []byte("\tb\n"), "an empty line": []byte("a\tb\n\n"),
		"descending": []byte("b\t1\na\t1\n"), "twice": []byte("a\t1\na\t1\n"), "a second tab": []byte("a\tb\tc\n"), "an escape": []byte("a\t\x1b[2J\n"),
		"no UTF-8": []byte("a\t\xff\n"), "a long value": fmt.Appendf(nil, "a\t%s\n", strings.Repeat("x", environmentValueMax+1)),
		"too long": bytes.Repeat([]byte("x"), environmentBytesMax+1),
	} {
		if read, err := decodeEnvironment(raw); err == nil {
			t.Errorf("%s: read as %v", name, read)
		}
	}
}

func TestAPeerTellsItsEnvironmentSoManyTimes(t *testing.T) {
	r := NewEnvironments()
	talker := p2p.Envelope{Src: named{id: "talker"}, Message: &types.BytesValue{Value: []byte("a\tb\n")}}
	for i := range environmentTellsMax {
		if err := r.hear(talker); err != nil {
			t.Fatalf("time %d: %v", i+1, err)
		}
	}
	if err := r.hear(talker); err == nil {
		t.Error("one time more is taken")
	}
}
