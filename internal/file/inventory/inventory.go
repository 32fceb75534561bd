// Package inventory lists what is in the state folder of a daemon: each file and folder,
// its format, what it is for, and what a backup does with it.
//
// Pure: no clock, no I/O.
package inventory

import (
	"path"
	"slices"
	"strings"
)

// Kind is the format of a file or a folder.
type Kind string

// The kinds.
const (
	State   Kind = "state"   // one file with a checksum, replaced as a whole
	Journal Kind = "journal" // a folder of package filelog
	Lines   Kind = "lines"   // a folder of files to which lines are appended
	Folder  Kind = "folder"  // a folder of state files
	Past    Kind = "past"    // a folder of Prometheus' storage
	Runs    Kind = "runs"    // a folder of records that processes of this machine write and have locked
	Local   Kind = "local"   // what else belongs to such processes, in formats of their own
)

// Care says what a backup does with a file or a folder.
type Care string

// The cares. The zero value means that it is copied.
const (
	Copied  Care = ""
	Secret  Care = "secret"  // copied only if secrets are asked for
	Cleaned Care = "cleaned" // copied without the secrets in it, unless they are asked for
	Bound   Care = "bound"   // copied, and restored only on the machine that it is from
	Left    Care = "left"    // never copied
)

// Item is a file or a folder of the state folder.
type Item struct {
	Path    string // below the state folder
	Kind    Kind
	Version int // the newest version of its format, and 0 if it has none
	Care    Care
	What    string // what it is, for people
	Lost    string // what is lost without it, for people: a whole sentence
}

// The names that the daemon uses.
const (
	Leases       = "journal"
	Waiting      = "waiting"
	Jobs         = "jobs"
	JobJournal   = "jobs/journal"
	Environments = "jobs/environments"
	JobRuns      = "jobs/runs"
	Services     = "services"
	ServiceFile  = "services/services.json"
	ServiceRuns  = "services/runs"
	Numbers      = "numbers.json" // which numbers ids have had
	Saved        = "config.yaml"
	Accounts     = "accounts.json"
	Tokens       = "tokens.json"   // hashes of secrets
	Sessions     = "sessions.json" // hashes of secrets
	Audit        = "audit"         // folder that the daemon's group may read
	Events       = "events"
	Hooks        = "hooks.json" // events that hooks have not got yet
	Alerts       = "alerts.json"
	Measured     = "past"
	PastLeases   = "past-leases.json"
	Peaks        = "history.json" // called so in every version
	Energy       = "energy.json"
	Hours        = "hours.json"
	Health       = "health.json"
	Drains       = "drains.json"
	Heat         = "heat.json"     // how temperatures follow power
	Throttle     = "throttle.json" // power limits and fans to restore
	MPS          = "mps"           // users pass through the state folder to their own folders in it
)

// items is the table. docs/guide/operate.md shows it.
var items = []Item{
	{Leases, Journal, 7, Copied, "the journal of leases", "Nobody knows who holds a lease."},
	{Waiting, Journal, 1, Copied, "who waits for a lease", "Those who wait lose their places."},
	{JobJournal, Journal, 1, Copied, "the jobs of users", "Jobs that wait do not run, and ended ones are forgotten."},
	{Environments, Folder, 0, Secret, "the environments of jobs", "Jobs that wait are held."},
	{JobRuns, Runs, 0, Left, "what the processes that mind jobs write down", "Jobs that run are lost."},
	{ServiceFile, State, 1, Cleaned, "the states of services", "Services that a person stopped start again."},
	{ServiceRuns, Runs, 0, Left, "what the processes that mind services write down", "Services start again."},
	{Numbers, State, 1, Copied, "which numbers the ids of jobs have had", "Numbers go on from the time in seconds."},
	{Saved, State, 0, Cleaned, "the settings that were changed at run time, limits of users among them", "Settings are those of berth.yaml."},
	{Accounts, State, 1, Bound, "the ids of the users and groups that the settings name", "What the settings say of them holds once the user database has answered."},
	{Tokens, State, 1, Secret, "the named tokens, as hashes", "No token opens a door until it is made again."},
	{Sessions, State, 1, Secret, "the sessions of the page, as hashes", "Everybody signs in again."},
	{Audit, Lines, 0, Copied, "the audit log", "Nobody can tell who did what for others."},
	{Events, Lines, 1, Copied, "the newest events", "Events from before are missing."},
	{Hooks, State, 1, Copied, "events that hooks have not got yet", "Hooks do not get these events."},
	{Alerts, State, 1, Copied, "the alerts and who acknowledged them", "Alerts begin anew."},
	{Measured, Past, 0, Copied, "what was measured, for queries and reports", "Graphs begin anew."},
	{PastLeases, State, 1, Copied, "the newest leases that have ended", "Reports miss leases that have ended."},
	{Peaks, State, 1, Copied, "how much memory programs used", "berth learns it again."},
	{Energy, State, 1, Copied, "how much energy was used", "Sums begin anew."},
	{Hours, State, 1, Copied, "what users and services held, used and waited for", "Sums begin anew."},
	{Health, State, 0, Copied, "which devices are in quarantine", "Devices in quarantine are trusted again."},
	{Drains, State, 1, Copied, "which devices are drained", "Drained devices take work again."},
	{Heat, State, 1, Copied, "how temperatures follow power", "berth learns it again."},
	{Throttle, State, 0, Bound, "the power limits and fans to set back", "Power limits and fans stay as they are."},
	{"paced.json", State, 1, Bound, "the processes that stand still for others", "Stopped processes stand still until somebody continues them."},
	{"parked.json", State, 1, Bound, "the processes whose memory is parked", "Parked programs stand still until somebody ends them."},
	{"hugepages.json", State, 1, Bound, "how huge pages were set before memory moved", "The setting stays as it is."},
	{"residue.json", State, 0, Bound, "which drivers were seen to clear memory", "berth tries it again."},
	{MPS, Local, 0, Left, "the folders of MPS daemons", "MPS daemons start again."},
}

// Items returns every file and folder, in the order of the page.
func Items() []Item { return append([]Item(nil), items...) }

// Find returns the item that a file below the state folder belongs to.
func Find(name string) (Item, bool) {
	for _, i := range items {
		if name == i.Path || strings.HasPrefix(name, i.Path+"/") && i.Kind != State {
			return i, true
		}
	}
	return Item{}, false
}

// Open reports whether others than the daemon may reach a file or a folder.
func (i Item) Open() bool { return i.Path == MPS || i.Path == Audit }

// Tops returns the names of the state folder that only the daemon may read.
func Tops() (names []string) {
	for _, i := range items {
		if top, _, _ := strings.Cut(i.Path, "/"); !i.Open() && !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	return names
}

// Stores returns the folders of what was measured, in the order in which it goes from one to
// the next.
func Stores() []string { return []string{"recent", "long"} }

// The names of files in folders, as patterns of package path. There are no regular
// expressions here: every command would wait until they are compiled.
var (
	digits = func(n int) string { return strings.Repeat("[0-9]", n) }
	inside = map[Kind][]string{
		Journal: {"log-" + digits(20), "snapshot-" + digits(20)},
		Lines:   {"audit.log", "audit-" + digits(20) + ".log", "events-" + digits(6) + ".jsonl", "events-" + digits(7) + ".jsonl"},
		Folder:  {"[0-9]*-" + strings.Repeat("[0-9a-f]", 64)},
		Past: {
			"recent/wal/" + digits(8), "recent/wal/checkpoint." + digits(8) + "/" + digits(8), "recent/" + block + "/meta.json", "recent/" + block + "/index", "recent/" + block + "/tombstones", "recent/" + block + "/chunks/" + digits(6),
			"long/wal/" + digits(8), "long/wal/checkpoint." + digits(8) + "/" + digits(8), "long/" + block + "/meta.json", "long/" + block + "/index", "long/" + block + "/tombstones", "long/" + block + "/chunks/" + digits(6),
		},
	}
	block = strings.Repeat("[0-9A-Z]", 26)
	// passing finds files that come and go: locks, files that are about to get their
	// names, damaged ones that are kept, and what the front and the storage of the past
	// write for themselves.
	passing = []string{
		"journal/lock", "waiting/lock", "jobs/journal/lock", "journal/damaged-*", "jobs/journal/damaged-*", "services/front.*",
		"past/*/log.json", "past/*/wbl/*", "past/*/chunks_head/*",
		"berth.sock", "berth.sock.*", "berth-*.log", "berth-*.log.*", "map/*", // of a user, whose other files for berth are in the same folder
	}
)

func like(name string, patterns []string) bool {
	for _, p := range patterns {
		if is, _ := path.Match(p, name); is {
			return true
		}
	}
	return false
}

// Copyable reports whether a file can be in a backup: it is a file of an item that is
// copied, by its whole name.
func Copyable(name string) bool {
	i, known := Find(name)
	switch {
	case !known || i.Care == Left || name != path.Clean(name):
		return false
	case i.Kind == State:
		return true
	}
	below, is := strings.CutPrefix(name, i.Path+"/")
	return is && like(below, inside[i.Kind])
}

// Passing reports whether a file comes and goes, and is neither copied nor missed.
func Passing(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasSuffix(part, ".new") || strings.HasSuffix(part, ".tmp") || strings.Contains(part, ".tmp-for-") || strings.HasPrefix(part, ".new-") {
			return true
		}
	}
	return like(name, passing) || strings.HasPrefix(name, Measured+"/aside/")
}
