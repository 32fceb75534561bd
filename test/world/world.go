// Package world plays whole daemons in a simulated machine, from a seed.
//
// Everything above the seams of the daemon is the daemon's own, wired by the code that wires
// it: the ledger and its journal, the desk, jobs, the mover, the watchdog, the queue, tokens
// and roles, events, the HTTP API. Below them is a machine that is only here: a disk that
// fills up, fails and forgets, processes that fork, hang and are killed, GPUs with faults,
// users, a user database, a clock, and callers whose connections break. Daemons are killed
// at any of their effects on it, and others come.
//
// What callers were told is kept in a book of promises, and compared with what is so.
package world

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	daemonconfig "github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/process"
)

type config = daemonconfig.Settings

// World is a simulated machine with its users.
type World struct {
	folder string // real, for the files of its daemons
	seed   uint64
	random *rand.Rand
	began  time.Time

	processes *processes
	cards     []*card
	people    people
	disk      disk

	effects    sync.Mutex // held during each effect of a daemon
	effectRand *rand.Rand // guarded by effects
	killIn     int        // half effects until the daemon is killed; 0: it is not
	dark       bool       // the power fails with the next kill
	root       string     // the state folder of the next daemon
	lifeNumber int

	mu       sync.Mutex // guards what follows
	now      *Life
	minded   map[string]*mindedRun
	offset   time.Duration // of the clock of the wall
	slept    time.Duration
	promises []*promise
	tasks    map[string]*commands // by job or task
	fences   map[uint64]string
	wrongs   []string
	told     []string // what happened, for a person
	played   []string // the operations
	logged   bytes.Buffer
	busy     int // callers that wait for an answer
	marks    map[string]int
	doing    string
	ending   map[string]int // by user and id: who means to end whatever has the id
	observer process.ID     // of root
	settling bool
	front    *front
	fronts   int // that there were
	up       time.Time
	stopHear func()
	servers  map[string]process.ID // by service

	count struct{ operations, effects, kills, restarts, reboots int }
}

// New returns a machine on which no daemon runs yet. Its files are in folder.
func New(folder string, seed uint64) *World {
	w := &World{
		folder: folder, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), effectRand: rand.New(rand.NewPCG(seed, 2)), began: time.Now(),
		minded: map[string]*mindedRun{}, tasks: map[string]*commands{}, fences: map[uint64]string{}, marks: map[string]int{}, ending: map[string]int{}, servers: map[string]process.ID{},
	}
	w.disk.at = map[string][]byte{}
	w.processes = newProcesses("boot-1")
	w.cards = newCards(w.processes, 4)
	w.root = filepath.Join(folder, "state-1")
	if err := os.WriteFile(filepath.Join(folder, "berth.yaml"), []byte(settings), 0o600); err != nil {
		w.wrong("machine", "%v", err)
	}
	return w
}

const settings = `
gpu: {max_pipelines: 4, foreign: show, monitor_interval: 5}
past: off
users: {olga: {role: operator}, eve: {memory_mb: 60000, running_jobs: 2}}
optimization: {time_slice_seconds: 60, park_idle_after: 30}
services:
  chat: {command: server, user: server, memory: 30GiB, port: 21001, idle_after: 120, away: stop}
  embed: {command: server, user: server, memory: 20GiB, port: 21002, away: park, parkable: unshared, start_timeout: 300}
  steady: {command: server, user: server, memory: 5GiB, port: 21003, start: always, away: auto, parkable: unshared}
  sleepy: {command: server, user: server, memory: 30GiB, port: 21004, away: sleep, sleep: [{method: POST, path: /sleep}], wake: [{method: POST, path: /wake}], idle_after: 60}
`

func (w *World) setLife(l *Life) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = l
}

func (w *World) life() *Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil || !w.now.up {
		return nil
	}
	return w.now
}

// wall is the clock of the wall, which may be set.
func (w *World) wall() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

func (w *World) passed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.began) + w.slept
}

// wrong notes that something is not as a check wants it.
func (w *World) wrong(check, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found(check, format, args...)
}

// found does the same for a caller who holds mu.
func (w *World) found(check, format string, args ...any) {
	if Checks[check] == "" {
		panic("there is no check " + check)
	}
	w.wrongs = append(w.wrongs, fmt.Sprintf("%v: %s: ", time.Since(w.began).Round(time.Millisecond), check)+fmt.Sprintf(format, args...))
}

// note writes down what happens, for a person who reads about a history that failed.
func (w *World) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf("%v: ", time.Since(w.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// reached counts that a history got somewhere.
func (w *World) reached(mark string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks[mark]++
}

// one returns true once in n times.
func (w *World) one(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n) == 0
}

func (w *World) intn(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// chance returns a length of time up to a limit, of any magnitude below it.
func (w *World) chance(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := most
	for d > time.Microsecond && w.random.IntN(3) > 0 {
		d /= 4
	}
	return time.Duration(w.random.Int64N(int64(d) + 1))
}

func (w *World) nap(most time.Duration) { time.Sleep(w.chance(most)) }

// log takes what daemons log.
func (w *World) log() io.Writer { return (*logged)(w) }

type logged World

func (l *logged) Write(b []byte) (int, error) {
	w := (*World)(l)
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := string(b); strings.Contains(text, "a bug in berth") {
		w.found("fault", "%s", text)
	}
	if w.logged.Len() > 1<<20 {
		w.logged.Reset()
	}
	fmt.Fprintf(&w.logged, "%v ", time.Since(w.began).Round(time.Millisecond))
	w.logged.Write(b)
	return len(b), nil
}

// troubled reports whether the disk may refuse what is right.
func (d *disk) troubled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.full || d.broken || d.once > 0
}

// count returns how many writes the disk has refused.
func (d *disk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

// lastRefused returns when the disk last refused a write, or may have.
func (d *disk) lastRefused() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full || d.broken || d.once > 0 {
		d.refusedAt = time.Now()
	}
	return d.refusedAt
}

// upSince returns since when the daemon lives.
func (w *World) upSince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up
}

// set changes the disk.
func (d *disk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}
