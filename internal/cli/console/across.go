package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/kubectl"
)

// Across selects the machines that a command shows, if not this one alone.
type Across struct {
	Kubernetes         bool
	Context, Namespace string
	URLs               []string

	given func(flag string) bool // by the command line; nil if none is
}

// AcrossFlags adds the flags that let a read-only command show several machines.
func AcrossFlags(cmd *cobra.Command, a *Across) {
	flags := cmd.Flags()
	a.given = flags.Changed
	flags.BoolVar(&a.Kubernetes, "kubernetes", false, "show every node of a cluster, through kubectl")
	flags.StringVar(&a.Context, "context", "", "with --kubernetes: `NAME` of the context of kubectl")
	flags.StringVar(&a.Namespace, "namespace", "", "with --kubernetes: `NAME` of the namespace of the\ndriver (default "+kubectl.Namespace+")")
	flags.StringSliceVar(&a.URLs, "urls", nil, "show the daemons at these addresses (`URL,URL`), as\nin http://a:8000,unix:///run/b.sock")
}

// Live has the options of the live view.
type Live struct {
	Interval time.Duration // how often to ask
	GPU      string        // the only device to show; empty for all
	Devices  string        // devices to show without a daemon; empty to ask a daemon
	Once     bool          // show one frame
	Across   Across
}

// Any reports whether the command shows several machines.
func (a *Across) Any() bool {
	return a.Kubernetes || a.given != nil && slices.ContainsFunc([]string{"urls", "context", "namespace"}, a.given)
}

// Interval returns how often to ask again, given how often the user wants it: through
// kubectl, which starts a program for each node, at most every five seconds.
func (a *Across) Interval(wanted time.Duration) time.Duration {
	const rarely = 5 * time.Second
	if a.Kubernetes && wanted != 0 {
		return max(wanted, rarely)
	}
	return wanted
}

// daemon is the address of one of several daemons, and the name that people use for it.
type daemon struct {
	name, host  string
	socket, url string
}

// daemons parses the addresses.
func (a *Across) daemons() ([]daemon, error) {
	if len(a.URLs) == 0 {
		return nil, Usage("--urls names no daemon")
	}
	var list []daemon
	hosts := map[string]int{}
	for _, text := range a.URLs {
		if path, unix := strings.CutPrefix(text, "unix://"); unix {
			if !strings.HasPrefix(path, "/") {
				return nil, Usage("%q is not the address of a socket: write it like unix:///run/berth/berth.sock", text)
			}
			list = append(list, daemon{name: path, socket: path})
			continue
		}
		whole := text
		if !strings.Contains(whole, "://") {
			whole = "http://" + whole
		}
		at, err := url.Parse(whole)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return nil, Usage("%q is not the address of a daemon: write it like http://host:8000", text)
		}
		hosts[at.Hostname()]++
		list = append(list, daemon{name: at.Host, host: at.Hostname(), url: whole})
	}
	seen := map[string]bool{}
	for i, d := range list {
		if hosts[d.host] == 1 {
			list[i].name = d.host
		}
		if seen[list[i].name] {
			return nil, Usage("--urls names %s twice", list[i].name)
		}
		seen[list[i].name] = true
	}
	return list, nil
}
