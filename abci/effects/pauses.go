package effects

// doublingMax bounds how often a pause doubles: beyond it lies every limit there is.
const doublingMax = 20

// doubled is least, doubled so many times, and at most the limit.
func doubled(leastMS int64, times int, mostMS int64) int64 {
	return min(leastMS<<min(times, doublingMax), mostMS)
}

// pauses keeps operations that fail in a row apart, further and further.
type pauses struct {
	failures int   // in a row
	resumeMS int64 // no operation starts before
}

// failed books the failure with this place in a row of them.
func (p *pauses) failed(nowMS int64, inARow int, leastMS, mostMS int64) {
	p.failures = inARow
	p.resumeMS = nowMS + doubled(leastMS, inARow-1, mostMS)
}

// over ends the row of failures; a pause that has begun goes on.
func (p *pauses) over() { p.failures = 0 }
