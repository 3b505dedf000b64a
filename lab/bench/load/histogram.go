package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	fine    = 4 // bits after the highest one that select a bucket: steps of 6 %
	columns = 1 << fine
	octaves = 40
)

// histogram counts durations in buckets of logarithmic size. All methods are safe for concurrent use.
type histogram struct {
	counts [octaves * columns]atomic.Uint64
	worst  atomic.Int64
}

func bucket(nanoseconds int64) int {
	micro := uint64(0)
	if nanoseconds > 0 {
		micro = uint64(nanoseconds) / 1000
	}
	if micro < columns {
		return int(micro)
	}
	shift := bits.Len64(micro) - fine - 1
	index := (shift+1)*columns + int(micro>>shift) - columns
	return min(index, octaves*columns-1)
}

// upper returns the upper bound of a bucket, in ms.
func upper(index int) float64 {
	if index < columns {
		return float64(index+1) / 1000
	}
	shift := index/columns - 1
	return float64((uint64(index%columns)+columns+1)<<shift) / 1000
}

func (h *histogram) add(taken int64, count uint64) {
	h.counts[bucket(taken)].Add(count)
	for {
		worst := h.worst.Load()
		if taken <= worst || h.worst.CompareAndSwap(worst, taken) {
			return
		}
	}
}

// take returns mean, worst and percentiles since the last call, in ms, and resets the histogram.
func (h *histogram) take() map[string]float64 {
	var counts [octaves * columns]uint64
	total, weighted := uint64(0), 0.0
	for i := range h.counts {
		counts[i] = h.counts[i].Swap(0)
		total += counts[i]
		weighted += float64(counts[i]) * upper(i)
	}
	told := map[string]float64{"worst": float64(h.worst.Swap(0)) / float64(time.Millisecond)}
	if total == 0 {
		return told
	}
	told["mean"] = weighted / float64(total)
	for name, part := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999} {
		left := uint64(part * float64(total))
		for i, count := range counts {
			if count > left {
				told[name] = upper(i)
				break
			}
			left -= count
		}
	}
	return told
}
