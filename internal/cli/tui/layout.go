package tui

import "slices"

// layout returns the places of the panes. The devices are at the top and take less than
// half; below them, the lists share the rest, side by side on a wide
// terminal.
func (s *State) layout() []area {
	height := s.bodyHeight()
	if s.zoomed {
		return []area{{s.pane, 0, 0, s.Width, height}}
	}
	if s.Several {
		devices, leases := 1+max(1, len(s.gpus)), 1+max(1, len(s.leases))
		if devices+leases > height {
			devices = min(devices, max(height/2, height-leases))
		}
		return []area{{Devices, 0, 0, s.Width, devices}, {Leases, 0, devices, s.Width, height - devices}}
	}
	devices := area{Devices, 0, 0, s.Width, s.devicesHeight(height)}
	left := height - devices.height
	waiting := len(s.queue)
	if s.facts.Leases != nil && len(s.facts.Leases.Waiting) > 0 {
		waiting = max(waiting, 1)
	}
	if s.Width >= wideFrom {
		width := (s.Width - 3) * 6 / 10
		services := s.servicesHeight(left / 3)
		jobs := s.jobsHeight(left / 3)
		y := devices.height + left - services - jobs
		areas := []area{devices, {Leases, 0, devices.height, width, y - devices.height}}
		if services > 0 {
			areas = append(areas, area{Services, 0, y, width, services})
		}
		if jobs > 0 {
			areas = append(areas, area{Jobs, 0, y + services, width, jobs})
		}
		y, right := devices.height, s.Width-3-width
		if waiting > 0 {
			queue := 1 + min(waiting, max(2, left/3))
			areas = append(areas, area{Queue, width + 3, y, right, queue})
			y += queue
		}
		if users := s.usersHeight(left / 4); users > 0 && left >= 20 {
			areas = append(areas, area{Users, width + 3, y, right, users})
			y += users
		}
		return append(areas, area{Events, width + 3, y, right, devices.height + left - y})
	}
	queue := 0
	if waiting > 0 {
		queue = 1 + min(waiting, max(1, left/5))
	}
	services := s.servicesHeight(left / 3)
	jobs, users := 0, 0
	if left >= 18 { // with less room, they have the screen to themselves: 6 and 8
		jobs = s.jobsHeight(left / 4)
	}
	if left >= 24 {
		users = s.usersHeight(left / 5)
	}
	events := 1 + max(1, (left-services-jobs-users)/4)
	leases := left - services - jobs - users - queue - events
	if spare := leases - 1 - max(1, len(s.leases)); spare > 0 && len(s.events) > events-1 {
		leases, events = leases-spare, events+spare
	}
	areas := []area{devices, {Leases, 0, devices.height, s.Width, leases}}
	y := devices.height + leases
	for _, below := range []struct {
		pane   Pane
		height int
	}{{Services, services}, {Jobs, jobs}, {Queue, queue}, {Users, users}} {
		if below.height > 0 {
			areas = append(areas, area{below.pane, 0, y, s.Width, below.height})
			y += below.height
		}
	}
	return append(areas, area{Events, 0, y, s.Width, events})
}

// paneHeight returns how many lines a pane takes that may show so many rows of all, at most so
// many lines, and none if there is nothing.
func paneHeight(rows, all, most int) int {
	if all == 0 {
		return 0
	}
	return 1 + min(max(1, rows), max(1, most-1))
}

func (s *State) servicesHeight(most int) int {
	return paneHeight(len(s.services), len(s.allServices()), most)
}

func (s *State) jobsHeight(most int) int { return paneHeight(len(s.jobs), len(s.allJobs()), most) }

// usersHeight returns the same for users, if there are several.
func (s *State) usersHeight(most int) int { return paneHeight(len(s.users), len(s.users)/2, most) }

// shown reports whether a pane has a place on the screen.
func (s *State) shown(p Pane) bool {
	return slices.ContainsFunc(s.layout(), func(a area) bool { return a.pane == p })
}

// rows returns the number of visible rows of a pane.
func (s *State) rows(p Pane) int {
	for _, a := range s.layout() {
		if a.pane != p {
			continue
		}
		if p != Devices {
			return max(1, a.height-1)
		}
		c := s.cards(a.width, a.height)
		return max(1, (a.height-1)/c.height*c.across)
	}
	return 1
}

// cards describes the drawing of devices: how many stand side by side, how many lines
// each takes, and how many of these are curves. With 0 curves, each device is one line
// with small curves.
type cards struct{ across, height, curves int }

// cards returns the richest drawing that fits.
func (s *State) cards(width, height int) cards {
	n := len(s.devices())
	for _, c := range []cards{{1, 7, 5}, {1, 6, 4}, {1, 5, 3}, {2, 5, 3}, {1, 4, 2}, {2, 4, 2}, {2, 3, 1}} {
		if width/c.across >= 75 && n > 0 && (n+c.across-1)/c.across*c.height+1 <= height {
			return c
		}
	}
	return cards{1, 1, 0}
}

// devicesHeight returns how many lines of the body the devices take.
func (s *State) devicesHeight(body int) int {
	n := len(s.devices())
	// If there are few leases, curves take the lines that the lists do not need, in
	// steps, so that not every lease moves the whole screen.
	const step = 8
	lists := (len(s.leases)/step+1)*step + 2
	if s.Width < wideFrom {
		lists += (len(s.queue)/step+1)*step + 2
	}
	if c := s.cards(s.Width, max(body/2, body-lists)); c.curves > 0 {
		return (n+c.across-1)/c.across*c.height + 1
	}
	if n+1 <= body/2 {
		return max(n, 1) + 1
	}
	return max(4, body*2/5)
}
