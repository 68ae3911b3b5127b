package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/gateway"
)

// Mode names what a node's timing is for. It decides the settings of Tuned, each unless the file
// sets it.
type Mode string

// The modes: to answer each client soon, to answer many clients for little processor time, or
// something of both.
const (
	Latency    Mode = "latency"
	Balanced   Mode = "balanced"
	Throughput Mode = "throughput"
)

// tuning holds the settings that a mode decides.
type tuning struct {
	gossipSleep, flushThrottle, bundleDelay, gather time.Duration
	expressLane                                     bool
}

// atOnce is the shortest that a timer waits. Between it and a millisecond nothing is gained: Go's
// runtime sleeps for whole milliseconds while it has nothing else to do.
const atOnce = time.Microsecond

var tunings = map[Mode]tuning{
	Latency:    {time.Millisecond, atOnce, 2 * time.Millisecond, 40 * time.Millisecond, true},
	Balanced:   {2 * time.Millisecond, time.Millisecond, gateway.DefaultLimits().BundleDelay, 80 * time.Millisecond, true},
	Throughput: {10 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, true},
}

// Tune gives what the mode decides its values. An unknown mode is an error and changes nothing.
func (c *Config) Tune(m Mode) error {
	if _, known := tunings[m]; !known {
		return fmt.Errorf("mode: there is no %q, only %s", m, strings.Join(modes(), ", "))
	}
	c.take(m)
	return nil
}

func (c *Config) take(m Mode) {
	t := tunings[m]
	c.Mode = m
	c.Network.GossipSleep, c.Network.FlushThrottle = Duration(t.gossipSleep), Duration(t.flushThrottle)
	c.Gateway.BundleDelay, c.Consensus.Gather = Duration(t.bundleDelay), Duration(t.gather)
	c.Consensus.ExpressLane = t.expressLane
}

func modes() (names []string) {
	for m := range tunings {
		names = append(names, string(m))
	}
	slices.Sort(names)
	return names
}
