package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// The kinds that others than the table of kinds have to know.
const (
	kindPartition    = "partition"
	kindJumpClock    = "jump_clock"
	kindTamper       = "tamper_" // all that begin so
	kindFullDatabase = "full_disk_database"
	kindFullNode     = "full_disk_node"
	kindSlowDatabase = "slow_disk_database"
	kindSlowNode     = "slow_disk_node"

	wholeCommit = "before_part_commit" // of a crash: passed by blocks without parts, too
)

const (
	// slowWrites is what a slow disk does in a second: as a disk that is worn out or shared by too
	// many.
	slowWrites   = 25
	operateLimit = 60 * time.Second // for what a fault does itself, on a slow machine
	rejoinLimit  = faultMax         // beside faults at which nothing goes on
)

// kind is one way to disturb members. begin and end are called once each, for every member by
// itself; end also when the run is over before its time.
type kind struct {
	needs    func(capabilities) error // says why the machine cannot do it; nil: always possible
	database bool                     // it hits databases, which not every member has
	postgres bool                     // and PostgreSQL alone
	ends     bool                     // the member's processes end by it, or may; end starts them again
	alone    bool                     // no two of the kind at a time: together they are another fault
	points   []string                 // what Fault.Point may be
	// crashed says whether the member ended at its point since the fault began; nil: such a fault
	// ends nobody by itself.
	crashed func(context.Context, *member) (bool, error)
	begin   func(context.Context, *run, *member, Fault) error
	end     func(context.Context, *run, *member, Fault) error
}

// member is an organisation, or a validator without a database.
type member struct {
	*harness.Node
	organisation *harness.Organisation // nil without a database
	checkpointer int32                 // the server's, when a crash point was armed
}

// kinds are all faults that a manifest can name.
var kinds = map[string]kind{
	"kill_node":     {ends: true, begin: killNode, end: startNode},
	"kill_database": {database: true, ends: true, begin: killDatabase, end: startDatabase},
	"kill_both":     {database: true, ends: true, begin: both(killNode, killDatabase), end: both(startNode, startDatabase)},
	"stop_node":     {ends: true, begin: stopNode, end: startNode},
	"stop_database": {database: true, ends: true, begin: stopDatabase, end: startDatabase},
	// the work of the next start after a crash, but under load from the first moment
	"restart_database":  {database: true, begin: both(stopDatabaseNow, startDatabase), end: nothing},
	"pause_node":        {begin: pauseNode, end: resumeNode},
	"pause_database":    {database: true, begin: pauseDatabase, end: resumeDatabase},
	"pause_both":        {database: true, begin: both(pauseDatabase, pauseNode), end: both(resumeNode, resumeDatabase)},
	kindPartition:       {needs: capabilities.lan, alone: true, begin: nothing, end: nothing}, // by run.change, for all members at once
	"tamper_rows":       {database: true, begin: otherRows.begins, end: nothing},
	"tamper_history":    {database: true, begin: otherHistory.begins, end: nothing},
	"tamper_everything": {database: true, begin: everything.begins, end: nothing},
	"older_data":        {database: true, begin: copyData, end: restoreData},
	"tamper_rejoin":     {database: true, begin: agreed.begins, end: rejoin},
	kindFullDatabase:    {needs: capabilities.mounts, database: true, ends: true, begin: fillDatabase, end: freeDatabase},
	kindFullNode:        {needs: capabilities.mounts, ends: true, begin: fillNode, end: freeNode},
	kindSlowDatabase:    {needs: capabilities.slowDisks, database: true, begin: slowDatabase, end: fastDatabase},
	kindSlowNode:        {needs: capabilities.slowDisks, begin: slowNode, end: fastNode},
	kindJumpClock:       {needs: capabilities.clocks, alone: true, ends: true, points: clockPoints, begin: jumpClock, end: resetClock},
	"crash_postgres":    {database: true, postgres: true, points: postgresPoints, crashed: postgresCrashed, begin: armPostgres, end: disarmPostgres},
	"crash_node":        {ends: true, points: nodePoints(), crashed: nodeCrashed, begin: crashNode, end: startNodeAgain},
}

// clockPoints are how far a clock jumps; it jumps back at the end. CometBFT refuses blocks of more
// than a minute ahead, so a node that is further behind ends. When as many are ahead as decide the
// time, the others wait until it is that late. So the far jumps are for fewer than a third.
var clockPoints = []string{farBehind, "-15s", "15s", "1h"}

const farBehind = "-1h"

// postgresPoints are the extension's crash points (spec/parallel.md); those of parts are passed
// where several processes execute a block.
var postgresPoints = []string{"parts_ready", wholeCommit, "after_part_commit:1", "before_block_commit", "after_block_commit"}

// nodePoints are CometBFT's: the n-th call of fail.Fail in its commit path after the node began.
// There are nine for each order block, so that these are the places of two blocks.
func nodePoints() []string {
	var points []string
	for i := range 18 {
		points = append(points, fmt.Sprint(i))
	}
	return points
}

type step = func(context.Context, *run, *member, Fault) error

// both does one step after the other, the second also when the first fails.
func both(first, second step) step {
	return func(ctx context.Context, r *run, m *member, f Fault) error {
		return errors.Join(first(ctx, r, m, f), second(ctx, r, m, f))
	}
}

func nothing(context.Context, *run, *member, Fault) error { return nil }

func killNode(_ context.Context, _ *run, m *member, _ Fault) error {
	m.KillNode()
	return nil
}

func stopNode(_ context.Context, _ *run, m *member, _ Fault) error  { return m.StopNode() }
func startNode(_ context.Context, _ *run, m *member, _ Fault) error { return m.StartNode() }

func pauseNode(_ context.Context, _ *run, m *member, _ Fault) error  { return m.PauseNode() }
func resumeNode(_ context.Context, _ *run, m *member, _ Fault) error { return m.ResumeNode() }

func killDatabase(_ context.Context, _ *run, m *member, _ Fault) error {
	m.organisation.Server().Kill()
	return nil
}

func stopDatabase(_ context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.Server().Stop()
}

func stopDatabaseNow(_ context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.Server().StopNow()
}

func startDatabase(ctx context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.Server().Start(ctx)
}

func pauseDatabase(_ context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.Server().Pause()
}

func resumeDatabase(_ context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.Server().Resume()
}

func copyData(ctx context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.Server().CopyData(ctx)
}

// restoreData is a power cut after which the disk holds what it held when the fault began.
func restoreData(ctx context.Context, _ *run, m *member, _ Fault) error {
	m.organisation.Server().Kill()
	if err := m.organisation.Server().RestoreData(ctx); err != nil {
		return err
	}
	return m.organisation.Server().Start(ctx)
}

func fillDatabase(_ context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.FillDatabase()
}

// freeDatabase frees the disk and starts the server where it ended, as a service manager does.
func freeDatabase(ctx context.Context, _ *run, m *member, _ Fault) error {
	if err := m.organisation.FreeDatabase(); err != nil {
		return err
	}
	if m.organisation.Server().Running() {
		return nil
	}
	return m.organisation.Server().Start(ctx)
}

func fillNode(_ context.Context, _ *run, m *member, _ Fault) error { return m.FillNode() }

func freeNode(ctx context.Context, r *run, m *member, f Fault) error {
	if err := m.FreeNode(); err != nil {
		return err
	}
	return startNodeAgain(ctx, r, m, f)
}

// startNodeAgain starts a node that ended, as a service manager does.
func startNodeAgain(_ context.Context, _ *run, m *member, _ Fault) error {
	m.KillNode() // did it not end, it runs with variables that it should not
	return m.StartNode()
}

func slowDatabase(_ context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.SlowDatabase(slowWrites)
}

func fastDatabase(_ context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.FastDatabase()
}
func slowNode(_ context.Context, _ *run, m *member, _ Fault) error { return m.SlowNode(slowWrites) }
func fastNode(_ context.Context, _ *run, m *member, _ Fault) error { return m.FastNode() }

func jumpClock(_ context.Context, _ *run, m *member, f Fault) error {
	ahead, err := time.ParseDuration(f.Point)
	if err != nil {
		return err
	}
	return m.SetClock(ahead)
}

// resetClock puts the clock right and starts the node where it ended, as a service manager does.
// One that was far behind may be about to end: it is ended, so that it does not do so later, when
// nobody starts it.
func resetClock(_ context.Context, _ *run, m *member, f Fault) error {
	if f.Point == farBehind {
		m.KillNode()
	}
	if err := m.SetClock(0); err != nil || m.NodeRunning() {
		return err
	}
	return m.StartNode()
}

// armPostgres has the server crash at a point of every block from now on; it comes up again by
// itself.
func armPostgres(ctx context.Context, _ *run, m *member, f Fault) error {
	err := harness.Poll(ctx, operateLimit, "look at PostgreSQL of "+m.Name, func(ctx context.Context) (bool, string, error) {
		pid, err := within(ctx, m.findCheckpointer)
		m.checkpointer = pid
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		return err
	}
	return m.organisation.SetSystem(ctx, operateLimit, "chainify.crash_point", f.Point)
}

func disarmPostgres(ctx context.Context, _ *run, m *member, _ Fault) error {
	return m.organisation.SetSystem(ctx, operateLimit, "chainify.crash_point", "")
}

// findCheckpointer gives a process that ends when the server crashes, and another one follows.
func (m *member) findCheckpointer(ctx context.Context) (pid int32, err error) {
	err = m.organisation.Scan(ctx, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'", &pid)
	return pid, err
}

func postgresCrashed(ctx context.Context, m *member) (bool, error) {
	pid, err := within(ctx, m.findCheckpointer)
	return err == nil && pid != m.checkpointer, err
}

func nodeCrashed(_ context.Context, m *member) (bool, error) { return !m.NodeRunning(), nil }

// crashNode starts the node so that it ends at a point of its commit path.
func crashNode(_ context.Context, _ *run, m *member, f Fault) error {
	m.KillNode()
	return m.StartNodeWith("FAIL_TEST_INDEX=" + f.Point)
}
