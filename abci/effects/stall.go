package effects

import "fmt"

// stall is a block with consent that this machine cannot execute. The machine's stack is too small,
// or the server meets an error that it does not expect of itself. The tables are not in doubt, so
// no step of recovery helps. The database executes the block again and again, until an operator has
// mended the machine.
type stall struct {
	pauses
	number uint64
	why    string
}

// again notes that the block failed, and the reason.
func (s *stall) again(number uint64, index uint32, why string, nowMS, leastMS, mostMS int64) {
	if s.number != number {
		*s = stall{number: number}
	}
	s.failed(nowMS, s.failures+1, leastMS, mostMS)
	s.why = fmt.Sprintf("block %d fails on this machine at transaction %d, though the others agree on it; it is executed again and again: %s", number, index, why)
}

// waits tells that the block is not executed yet.
func (s *stall) waits(number uint64, nowMS int64) bool { return s.at(number) && nowMS < s.resumeMS }

// at reports whether the last execution of this block failed.
func (s *stall) at(number uint64) bool { return s.number == number && s.failures > 0 }
