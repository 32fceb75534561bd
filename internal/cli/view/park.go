package view

import (
	"fmt"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Moved is a lease before and after the daemon moved its memory or changed its size.
type Moved struct{ Before, After api.Lease }

// Parked says that a lease is parked, how fast that was, and how much memory it takes.
func (x GPUs) Parked(m Moved, to term.Screen) []string {
	l := m.After
	text := term.Clean(l.ID) + " is parked"
	if p := l.Parking; p != nil {
		if speed := m.speed(p.Host); speed != "" {
			text += ": " + speed
		}
		if p.Host > 0 {
			text += fmt.Sprintf(". It takes %s of the machine's memory", p.Host)
		}
		if p.Ground == "owner" {
			text += ". Its processes share no GPU memory, its owner says"
		}
	}
	return []string{to.Hang(term.Plain, "", text+". Get it back: berth resume "+words.Shell(term.Clean(l.ID)))}
}

// Resumed says that a lease is back on its device, and how fast that was.
func (x GPUs) Resumed(m Moved, to term.Screen) []string {
	var moved gpu.MiB
	if m.Before.Parking != nil {
		moved = m.Before.Parking.Host
	}
	text := term.Clean(m.After.ID) + " is back: it holds " + x.Had(m.After)
	if speed := m.speed(moved); speed != "" {
		text += "; " + speed
	}
	return append([]string{to.Hang(term.Plain, "", text+".")}, failure(m.After, to)...)
}

// Resized describes a lease that has changed its size.
func (x GPUs) Resized(m Moved, to term.Screen) []string {
	l := m.After
	if len(m.Before.Parts) > 0 && l.Was == 0 && len(l.Parts) > 0 && m.Before.Parts[0].Memory != l.Parts[0].Memory {
		l.Was = m.Before.Parts[0].Memory
	}
	return x.Granted(l, to)
}

// speed says how much memory was moved, how long that took, and how fast it was. It
// returns "" if nothing was moved.
func (m Moved) speed(moved gpu.MiB) string {
	took := 0.0
	if m.After.Parking != nil {
		took = m.After.Parking.Moving
	}
	if m.Before.Parking != nil {
		took -= m.Before.Parking.Moving
	}
	if moved <= 0 || took <= 0 {
		return ""
	}
	return fmt.Sprintf("%s moved in %s, %.1f GiB/s", moved, words.Duration(time.Duration(took*float64(time.Second))), float64(moved)/1024/took)
}

// Moving says in a few words where the memory of a lease is moving. It returns "" if
// the memory is not moving.
func (x GPUs) Moving(l api.Lease, now time.Time) string {
	if l.Parking == nil || len(l.Parts) == 0 {
		return ""
	}
	id, age := term.Clean(l.ID), words.Age(now.Sub(l.Parking.Since))
	switch l.State {
	case "parking":
		return fmt.Sprintf("%s: %s moves from %s to the machine's memory, for %s", id, amountMoved(l), x.Name(l.Parts[0].GPU), age)
	case "resuming":
		return fmt.Sprintf("%s: %s moves back to %s, for %s", id, amountMoved(l), x.Name(l.Parts[0].GPU), age)
	}
	return ""
}

// amountMoved says how much memory of a lease is moving.
func amountMoved(l api.Lease) string {
	moved := l.Parking.Host
	if measured, known := l.Parts[0].Measured.Get(); known && moved == 0 {
		moved = measured
	}
	if moved == 0 {
		return "its memory"
	}
	return moved.String()
}

// failure says what went wrong when the memory of a lease was moved.
func failure(l api.Lease, to term.Screen) []string {
	if l.Parking == nil || l.Parking.Failed == "" {
		return nil
	}
	return []string{to.Hang(term.Red, "✗ ", term.Clean(l.ID)+": "+term.Clean(l.Parking.Failed))}
}

// whereabouts describes the memory of a lease, with a line each: that it is parked or
// moving, that it was shrunk, and that it is idle.
func whereabouts(l api.Lease, to term.Screen) []string {
	var lines []string
	add := func(text string) { lines = append(lines, to.Hang(term.Plain, "", term.Clean(l.ID)+" "+text+".")) }
	if p := l.Parking; p != nil {
		age := words.Age(to.Now.Sub(p.Since))
		switch l.State {
		case "parking":
			add("is being parked" + by(p) + ", for " + age + why(p))
		case "parked":
			text := "has been parked" + by(p) + " for " + age + why(p)
			if p.Host > 0 {
				text += "; it takes " + p.Host.String() + " of the machine's memory"
			}
			if p.Returns {
				text += ", and returns at its turn"
			}
			add(text)
		case "resuming":
			add("is on its way back to its GPU, for " + age)
		}
	}
	if l.Asked > 0 && len(l.Parts) > 0 {
		add(fmt.Sprintf("asked for %s and was shrunk to %s, because it does not use the rest", l.Asked, l.Parts[0].Memory))
	}
	if i := l.Idle; i != nil {
		text := "has not used its GPU for " + words.Age(to.Now.Sub(i.Since))
		if use, known := i.Utilization.Get(); known {
			text += fmt.Sprintf(" (%.0f %% utilisation, %s held)", float64(use), i.Memory)
		}
		add(text)
	}
	return append(lines, failure(l, to)...)
}

// by says who parked a lease.
func by(p *api.Parking) string {
	if p.By.User == "" {
		return ""
	}
	return " by " + term.Clean(p.By.User)
}

// why says why a lease was parked.
func why(p *api.Parking) string {
	if p.Why == "" {
		return ""
	}
	return ": " + term.Clean(p.Why)
}

// parked says how much memory of the machine parked leases take, and lists them.
func (s *Status) parked(to term.Screen) []string {
	var memory gpu.MiB
	var names []string
	for _, d := range s.GPUs {
		for _, l := range d.Leases {
			if l.State == "parked" {
				memory += l.Host
				names = append(names, term.Clean(l.ID)+" of GPU "+strconv.Itoa(d.Device.Index))
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	text := words.Count(len(names), "lease") + words.Form(len(names), " is", " are") + " parked"
	if memory > 0 {
		text += " in " + memory.String() + " of the machine's memory"
	}
	return []string{to.Hang(term.Plain, "", text+": "+words.Few(names, 5)+".")}
}
