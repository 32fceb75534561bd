package daemon

import (
	"context"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// accountsAgain is how long after a failure the users and groups in the configuration are
// looked up again.
const accountsAgain = time.Minute

// accountsLimit is how long the daemon waits for all of these lookups together.
const accountsLimit = 2 * time.Second

// people knows who may do what.
type people struct {
	users   *users.Names
	numbers users.Numbers
	rules   atomic.Pointer[access.Rules]
	limits  atomic.Pointer[quota.Rules]

	accounts accounts // what is known of the names in the settings, across restarts

	// served is as whom programs ran when services and the front were told last. It belongs
	// to whoever changes the settings.
	served map[string]int
}

// govern puts the roles of the configuration into force. It returns the names of unknown
// users and groups, which have no role until they are found. With again, it also looks up
// those that are known.
func (p *people) govern(c config.Config, again bool) (missing []string) {
	var users, groups []string
	for name := range c.Users {
		if isLogin(name) {
			users = append(users, name)
		}
	}
	for name := range c.Groups {
		groups = append(groups, name)
	}
	if c.Daemon.SocketGroup != "" {
		groups = append(groups, c.Daemon.SocketGroup)
	}
	missing = p.numbers.Find(append(users, programUsers(c)...), groups, again)
	p.rules.Store(p.rulesOf(c))
	p.limit(c)
	return missing
}

// limit puts the limits of users into force. Users keep what they already have. If two
// entries are for one user, by name and by number, the lesser limits hold.
func (p *people) limit(c config.Config) {
	before := p.limits.Load()
	rules := &quota.Rules{
		Default: quota.Configured(c.Users["default"].Limits),
		Users:   map[int]quota.User{}, Named: map[string]quota.User{}, Groups: map[int]quota.Group{},
	}
	for _, name := range slices.Sorted(maps.Keys(c.Users)) {
		u := c.Users[name]
		entry := quota.User{Name: name, Configured: quota.Configured(u.Limits)}
		if !isLogin(name) {
			rules.Named[name] = entry
		} else if uid, known := p.numbers.User(name); known {
			if other, twice := rules.Users[uid]; twice {
				entry = quota.User{Name: other.Name + " and users." + name, Configured: other.Least(entry.Configured)}
			}
			rules.Users[uid] = entry
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) { // of two entries for one group, the later name holds
		g := c.Groups[name]
		if gid, known := p.numbers.Group(name); known {
			rules.Groups[gid] = quota.Group{Name: name, Configured: quota.Configured(g.Limits), Together: quota.Together(g.Together)}
		}
	}
	if before != nil {
		rules.Generation = before.Generation
		if reflect.DeepEqual(before, rules) {
			return
		}
	}
	rules.Generation++
	p.limits.Store(rules)
}

// isLogin reports whether an entry of the section users is a user of this machine.
func isLogin(name string) bool { return name != "default" && !strings.Contains(name, ":") }

func (p *people) rulesOf(c config.Config) *access.Rules {
	rules := &access.Rules{
		Daemon: os.Geteuid(), Users: map[int]access.Given{}, Groups: map[int]access.Given{}, Certificates: map[string]access.Role{},
		ContainersNeedToken: c.Daemon.ContainerCallers == "token",
		TCPNeedsToken:       c.Daemon.TCPCallers == "token",
	}
	for _, name := range slices.Sorted(maps.Keys(c.Users)) {
		u := c.Users[name]
		role, err := access.ParseRole(u.Role)
		if err != nil {
			continue // no role is given
		}
		if certificate, is := strings.CutPrefix(name, "cert:"); is {
			rules.Certificates[certificate] = role
		} else if name == "default" {
			rules.Others = role
		} else if uid, known := p.numbers.User(name); known && isLogin(name) {
			if other, twice := rules.Users[uid]; !twice || role < other.Role { // of two entries for one user, the lesser role holds
				rules.Users[uid] = access.Given{Name: name, Role: role}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		g := c.Groups[name]
		role, _ := access.ParseRole(g.Role) // none if the entry has only limits
		if gid, known := p.numbers.Group(name); known {
			rules.Groups[gid] = access.Given{Name: name, Role: role}
		}
	}
	return rules
}

// findAccounts looks up the users and groups of the configuration again as long as some
// are missing: the database may be on a server that comes up later. Once in an hour it looks
// up all of them.
func (d *Daemon) findAccounts(ctx context.Context) {
	told := ""
	tick := time.NewTicker(accountsAgain)
	defer tick.Stop()
	for round := 0; ; round++ {
		missing := d.governAgain(round%60 == 0) // at the start, too: somebody else may have an id by now
		if all := strings.Join(missing, ", "); all != told && all != "" {
			d.log.Warn("the configuration names users or groups that nobody knows: what it gives them does not hold until they are found", "missing", all)
			told = all
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// governAgain applies the configuration to the accounts that were found since. It returns
// the names that are still unknown. The settings do not change meanwhile: older ones would
// come back into force.
func (d *Daemon) governAgain(all bool) (missing []string) {
	d.settings.changing.Lock()
	defer d.settings.changing.Unlock()
	c, before := d.settings.load().Config, d.limits.Load()
	missing = d.govern(c, all)
	if err := d.keep(); err != nil {
		d.log.Warn("which users and groups the settings name will have to be found again after a restart", "error", err)
	}
	if d.limits.Load() != before { // some were found
		d.ledger.Configure(d.leasing(c))
		if d.jobs != nil {
			d.jobs.LimitsChanged()
		}
	}
	if !maps.Equal(d.programUIDs(c), d.served) {
		d.serve(c)
	}
	if d.socket != nil {
		group, _ := d.socketGroup(c.Daemon)
		if err := d.socket.give(group); err != nil && err.Error() != d.socket.told {
			d.socket.told = err.Error() // and tried again each time
			d.log.Warn(d.socket.told)
		}
	}
	return missing
}

// accounts is the file of the ids of the users and groups that the settings name. Without
// it, what the settings take from a user would not hold after a start until the user
// database has answered.
type accounts struct {
	file   *file.State[knownAccounts]
	kept   map[string]int // in the file
	damage *file.Damage
}

type knownAccounts struct {
	IDs map[string]int `json:"ids"` // as users.Numbers.Known has them
}

// recall takes over what an earlier daemon knew.
func (p *people) recall(path string) {
	a := &p.accounts
	a.file = file.NewState[knownAccounts](path, file.StateOptions{
		What: "the ids of the users and groups that the settings name", Version: 1,
		Lost: "What the settings say of users and groups holds once the user database has answered.",
	})
	a.damage = a.file.Load(func(known knownAccounts) error {
		a.kept = known.IDs
		p.numbers.Recall(known.IDs)
		return nil
	})
}

// keep writes down what is known, if that has changed.
func (p *people) keep() error {
	a, known := &p.accounts, p.numbers.Known()
	if a.file == nil || maps.Equal(a.kept, known) {
		return nil
	}
	if err := a.file.Save(knownAccounts{known}); err != nil {
		return err
	}
	a.kept = known
	return nil
}

// socketGroup returns the group of the socket, or -1 if it has none of its own. It returns
// false if nobody knows the group, as far as the user database has said.
func (p *people) socketGroup(c config.Daemon) (group int, known bool) {
	if c.SocketGroup == "" {
		return -1, true
	}
	if group, known = p.numbers.Group(c.SocketGroup); !known {
		return -1, false
	}
	return group, true
}

// programUIDs returns as whom programs run, as far as it is known now.
func (p *people) programUIDs(c config.Config) map[string]int {
	uids := map[string]int{}
	for _, name := range programUsers(c) {
		if uid, known := p.numbers.User(name); known {
			uids[name] = uid
		}
	}
	return uids
}
