package effects

// How long what no step cured is left alone: an attempt may scan all tables. Doubled from the first
// to the second.
const (
	curePauseMinMS int64 = 60_000
	curePauseMaxMS int64 = 60 * 60_000
)

// finding is how far the repair has come of what the scrubber found. While no step helps the
// database goes on, since each block shows whether it matters; another organisation may be able to
// help later.
type finding struct {
	climb
	rounds  int   // how often no step helped, in a row
	afterMS int64 // none is tried before
}

func (f *finding) due(nowMS int64) bool { return nowMS >= f.afterMS }

// uncured follows the last step, when none has helped: the first one is tried again after a pause.
// It returns the reason, and whether this is the first such round.
func (f *finding) uncured(nowMS int64) (why string, first bool) {
	why, first = f.why, f.rounds == 0
	f.climb, f.afterMS = climb{}, nowMS+doubled(curePauseMinMS, f.rounds, curePauseMaxMS)
	f.rounds++
	return why, first
}
