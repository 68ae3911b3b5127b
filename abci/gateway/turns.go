package gateway

// turns keep what is submitted over one connection in order: what was sent first is queued first.
// Only queueing waits for its turn; checking signatures and asking for agreement go on beside each
// other.
type turns struct{ last <-chan struct{} }

// atOnce is for what has no order to keep.
var atOnce = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// next gives a submission its place, behind the one before. Once turn is closed, it may be queued.
// The caller calls over exactly once, whatever became of the submission: everything sent later
// waits for that.
func (t *turns) next() (turn <-chan struct{}, over func()) {
	turn, mine := t.last, make(chan struct{})
	t.last = mine
	return turn, func() { close(mine) }
}
