package leasing

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type deallocateOptions struct {
	service, gpu, id string
}

func newDeallocate(con *console.Console) *cobra.Command {
	o := &deallocateOptions{}
	cmd := &cobra.Command{
		Use:   "deallocate SERVICE [GPU]",
		Short: "End the lease of a service",
		Long: `End the lease that a service has, on a GPU (index or UUID) if it has several. If
the service has several leases there, name one with --id, as ID or USER/ID. A
lease over several GPUs ends on all of them. A pool is found by its name. A
program that runs keeps its lease: berth cancel ends both.`,
		Example: "  berth deallocate embedder\n  berth deallocate embedder 1\n  berth deallocate embedder 1 --id embedder-2",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return con.GPUs()(cmd, nil, part)
			}
			return con.Services()(cmd, args, part)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.service, o.gpu = args[0], strings.Join(args[1:], "") // none, or one
			return console.AskByIndex(cmd.Context(), con, o.release, view.GPUs.Ended)
		},
	}
	cmd.Flags().StringVar(&o.id, "id", "", "`NAME` of the lease, if the service has several")
	return cmd
}

func (o *deallocateOptions) release(c *client.Client, ctx context.Context) (api.Ended, error) {
	l, err := o.find(ctx, c)
	if err != nil {
		return api.Ended{}, err
	}
	if uid, known := l.Holder.UID.Get(); !known || uid != os.Getuid() {
		c = c.Of(l.Holder.User)
	}
	if l.Binding == "process" {
		// With a fence, the daemon would end it although its program lives.
		return c.Release(ctx, l.ID, 0)
	}
	return c.Release(ctx, l.ID, l.Fence)
}

// find returns the only lease that matches the arguments.
func (o *deallocateOptions) find(ctx context.Context, c *client.Client) (api.Lease, error) {
	filter := view.LeaseFilter{Filter: fleet.Filter{Services: []string{o.service}}}
	if o.gpu != "" {
		device, err := c.Status(ctx, o.gpu)
		if err != nil {
			return api.Lease{}, err
		}
		filter.GPUs = []string{device.Device.UUID}
	}
	all, err := c.Leases(ctx)
	if err != nil {
		return api.Lease{}, err
	}
	found := filter.Apply(all).Leases
	if len(found) == 0 { // a pool is known by its name, and may have no service
		filter.Services = nil
		found = slices.DeleteFunc(named(filter.Apply(all).Leases, o.service), func(l api.Lease) bool { return l.Pool == nil })
	}
	if o.id != "" {
		found = named(found, o.id)
	}
	switch len(found) {
	case 0:
		return api.Lease{}, o.noneFound(all)
	case 1:
		return found[0], nil
	}
	return api.Lease{}, o.severalFound(found, all)
}

func (o *deallocateOptions) noneFound(all api.Leases) error {
	what := o.service
	if o.id != "" {
		what = fmt.Sprintf("%s, as %s,", o.service, o.id)
	}
	problem := &api.Problem{Status: 404, Code: "unknown_allocation", Detail: fmt.Sprintf("%s has no lease%s.", what, o.there())}
	filter := view.LeaseFilter{Filter: fleet.Filter{Services: []string{o.service}}}
	if len(filter.Apply(all).Leases) > 0 {
		return console.Hinted(problem, "find its leases: berth leases --service "+words.Shell(o.service))
	}
	return console.Hinted(problem, words.LowerFirst(strings.Replace(filter.Missed(all), "--service ", "", 1)))
}

func (o *deallocateOptions) severalFound(found []api.Lease, all api.Leases) error {
	var ids []string
	for _, l := range found {
		ids = append(ids, view.LeaseName(l.ID, l.Holder, all))
	}
	next := "name one: --id " + strings.Join(ids, " or --id ")
	if o.gpu == "" {
		next = "name the GPU too, or " + next
	}
	return console.Hinted(console.Usage("%s has %d leases%s", o.service, len(found), o.there()), next)
}

// there returns where the lease must be, in words.
func (o *deallocateOptions) there() string {
	if o.gpu == "" {
		return ""
	}
	return " on GPU " + o.gpu
}

// named returns the leases that match a name: ID or USER/ID.
func named(leases []api.Lease, name string) []api.Lease {
	return slices.DeleteFunc(leases, func(l api.Lease) bool { return l.ID != name && l.Holder.User+"/"+l.ID != name })
}
