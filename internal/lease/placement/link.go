package placement

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// link is a link to another device. Larger strength is better.
type link struct {
	to       int32
	strength int32
}

// strength returns the strength of a link: its kind counts before the number of its
// lanes.
func strength(l gpu.Link) int32 {
	return int32(l.Kind.Closeness())<<8 | int32(min(max(l.Lanes, 0), 255))
}

// linksOf returns the links of each device, by position. Two devices may report the same
// link; the better report counts for both ends.
func linksOf(devices []gpu.Device, position map[string]int) [][]link {
	links := make([][]link, len(devices))
	for i := range devices {
		for _, l := range devices[i].Links {
			if j, ok := position[l.To]; ok && j != i {
				links[i] = append(links[i], link{int32(j), strength(l)})
				links[j] = append(links[j], link{int32(i), strength(l)})
			}
		}
	}
	for i := range links {
		slices.SortFunc(links[i], func(a, b link) int {
			if a.to != b.to {
				return int(a.to - b.to)
			}
			return int(b.strength - a.strength)
		})
		links[i] = slices.CompactFunc(links[i], func(a, b link) bool { return a.to == b.to })
	}
	return links
}
