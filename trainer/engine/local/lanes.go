package local

import (
	"runtime"
	"sync"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
)

// lanes is the number of parts that the samples of an update are cut into. It bounds parallelism and is part of what
// makes results reproducible: gradients are summed within a lane, then over lanes in order.
const lanes = 4

// threads is the number of workers, at most one a lane.
func (o *Options) threads() int {
	if o.Threads == 0 {
		return min(runtime.GOMAXPROCS(0), lanes)
	}
	return min(o.Threads, lanes)
}

// gradients is how many copies of the gradient an update holds: that of the lanes summed so far and one for each lane being
// computed, a lane's being added as soon as those before it are.
func (o *Options) gradients() int { return min(o.threads()+1, lanes) }

// laneQueue deals lanes and gradients out to workers, and sums the lanes' gradients into the first.
type laneQueue struct {
	mu     sync.Mutex
	freed  sync.Cond
	flats  [][]float32 // the gradients; all zero but for those of lanes not yet summed
	free   []int
	next   int        // lane to be taken
	summed int        // lanes
	done   [lanes]int // 1 + gradient of a lane that waits for those before it
}

func newLaneQueue(flats [][]float32) *laneQueue {
	q := &laneQueue{flats: flats}
	q.freed.L = &q.mu
	for i := range flats {
		q.free = append(q.free, i)
	}
	return q
}

// take returns a lane and the gradient to add it to, which is zero; the lane is lanes when all are taken. It waits for a
// gradient: the lowest lane at work has one, so that there will be.
func (q *laneQueue) take() (lane, gradient int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.free) == 0 && q.next < lanes {
		q.freed.Wait()
	}
	if q.next == lanes {
		return lanes, 0
	}
	lane, gradient = q.next, q.free[0]
	q.next, q.free = q.next+1, q.free[1:]
	if q.next == lanes {
		q.freed.Broadcast()
	}
	return lane, gradient
}

// finish sums the lane as soon as all before it are. Lane 0 was taken first and lies in the first gradient.
func (q *laneQueue) finish(lane, gradient int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done[lane] = 1 + gradient
	for ; q.summed < lanes && q.done[q.summed] > 0; q.summed++ {
		if q.summed == 0 {
			continue
		}
		g := q.done[q.summed] - 1
		cpu.Add(q.flats[0], q.flats[g])
		clear(q.flats[g])
		q.free = append(q.free, g)
		q.freed.Signal()
	}
}
