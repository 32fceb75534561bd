package httpapi

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
)

// accessTable returns the rows of the table in docs/reference/access.md whose first column is
// called this, each with the texts of its cells.
func accessTable(t *testing.T, first string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/reference/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| "+first+" |")
	if !found {
		t.Fatalf("docs/reference/access.md has no table of %s", first)
	}
	for _, line := range strings.Split(table, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// leastRole returns the least role that may do a verb to an object.
func leastRole(v access.Verb, o access.Object) string {
	for role := access.Stranger; role <= access.Admin; role++ {
		if access.May(access.Actor{UID: 1, User: "one", Role: role}, v, o) == nil {
			return role.String()
		}
	}
	return "none"
}

var (
	own     = access.Of(access.Held, 1, "one")
	another = access.Of(access.Held, 2, "two")
)

// docs/reference/access.md has every route with its verb and the roles that may use it, and
// no other.
func TestThePageHasEveryRoute(t *testing.T) {
	onPage := map[string]bool{}
	for _, row := range accessTable(t, "route") {
		route := strings.Trim(row[0], "`")
		if onPage[route] {
			t.Errorf("%s is there twice", route)
		}
		onPage[route] = true
		verb, listed := verbs[route]
		if !listed {
			t.Errorf("%s is on the page, and is no route", route)
			continue
		}
		want := []string{verb.String(), leastRole(verb, own), leastRole(verb, another)}
		if got := []string{strings.Trim(row[1], "`"), row[2], row[3]}; !slices.Equal(got, want) {
			t.Errorf("%s: the page says %v, the code %v", route, got, want)
		}
		allowed := false
		for role := access.Stranger; role <= access.Admin; role++ {
			allowed = allowed || role.String() == row[2]
			if granted := mayUse(route, access.Actor{UID: 1, Role: role}) == nil; granted != allowed {
				t.Errorf("%s by a %v: %v, the page says %v", route, role, granted, allowed)
			}
		}
	}
	for route := range verbs {
		if !onPage[route] {
			t.Errorf("%s is not on the page docs/reference/access.md: say who may use it", route)
		}
	}
}

// docs/reference/access.md has every verb with its roles, and no other.
func TestThePageHasEveryVerb(t *testing.T) {
	onPage := map[string][]string{}
	for _, row := range accessTable(t, "verb") {
		for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[0], -1) {
			onPage[word[1]] = row[1:3]
		}
	}
	for _, v := range access.Verbs() {
		if want := []string{leastRole(v, own), leastRole(v, another)}; !slices.Equal(onPage[v.String()], want) {
			t.Errorf("%s: the page says %v, the code %v", v, onPage[v.String()], want)
		}
		delete(onPage, v.String())
	}
	for word := range onPage {
		t.Errorf("%s is on the page, and is no verb", word)
	}
}

// docs/reference/access.md has the role of each caller at each door.
func TestThePageHasEveryDoor(t *testing.T) {
	const named, demoted, group = 1002, 1003, 200
	rules := access.Rules{
		Users:  map[int]access.Given{named: {Name: "named", Role: access.Operator}, demoted: {Name: "demoted", Role: access.Viewer}},
		Groups: map[int]access.Given{group: {Name: "operators", Role: access.Operator}},
	}
	strict := rules
	strict.ContainersNeedToken = true
	here := func(uid int) access.Caller { return access.Caller{UID: access.KnownUID(uid), Place: access.Here} }
	elsewhere := func(uid int) access.Caller {
		return access.Caller{UID: access.KnownUID(uid), Place: access.Elsewhere}
	}
	token := func(name string, role access.Role) access.Caller {
		c := elsewhere(0)
		c.Shown = access.Credential{Kind: access.Token, Name: name, Role: role}
		return c
	}
	bound := token("c", access.User)
	bound.Shown.As, bound.Shown.UID = "named", access.KnownUID(named)
	member := here(1001)
	member.Groups = []int{group}
	callers := map[string]struct {
		access.Caller
		rules access.Rules
	}{
		"root":                          {here(0), rules},
		"a user":                        {here(1001), rules},
		"a user with the role operator": {here(named), rules},
		"a user with the role viewer":   {here(demoted), rules},
		"a member of a group with the role operator":                         {member, rules},
		"root in a container":                                                {elsewhere(0), rules},
		"a user in a container":                                              {elsewhere(1001), rules},
		"a user in a container, with `container_callers: token`":             {elsewhere(1001), strict},
		"a caller who is not known":                                          {access.Caller{}, rules},
		"a token with the role operator":                                     {token("a", access.Operator), rules},
		"a token with the role scraper":                                      {token("b", access.Scraper), rules},
		"a token with the role user, bound to a user with the role operator": {bound, rules},
		"`daemon.token`":                                                     {token(access.DaemonToken, access.Admin), rules},
	}
	keeper := doorkeeper.Doorkeeper{Tokens: tokens.New()}
	for _, row := range accessTable(t, "caller") {
		c, known := callers[row[0]]
		if !known {
			t.Errorf("the page speaks of %s", row[0])
			continue
		}
		delete(callers, row[0])
		for i, door := range []access.Door{access.Socket, access.TCP, access.TCP} {
			at := c.Caller
			if at.Door = door; door == access.TCP {
				at.Groups = nil // the kernel names them on the socket only
			}
			want := c.rules.Standing(&at).Role
			if far := i == 2; far && at.Shown.Kind == access.NoCredential && keeper.NeedsCredential(keeper.Caller(access.Peer{}, "192.0.2.1")) {
				want = access.Stranger
			}
			if got := row[1+i]; got != want.String() {
				t.Errorf("%s in column %d: the page says %s, the code %v", row[0], 1+i, got, want)
			}
		}
	}
	for name := range callers {
		t.Errorf("the page does not speak of %s", name)
	}
}
