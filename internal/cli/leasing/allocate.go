package leasing

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/words"
)

type allocateOptions struct {
	*console.Console
	request api.Allocate
	ttl     console.Seconds
	time    console.Seconds
	timeout console.Seconds
	another bool
}

func newAllocate(con *console.Console) *cobra.Command {
	o := &allocateOptions{Console: con}
	cmd := &cobra.Command{
		Use:   "allocate SERVICE MEMORY",
		Short: "Lease memory for a service",
		Long: `Lease memory on one GPU for a service. The lease lasts until you release it.
With --pid, it ends with that process. With --ttl, it expires if it is not
renewed in time.

Run the command again, from a start script for example, and it finds your lease
and says that it stands. If you ask for another size, it resizes the lease, or
exits with code 4 if there is no room. --another asks for one more lease.

If there is no room for a new lease, the request waits for --timeout, which is
optimization.allocation_timeout by default; interrupt the command to withdraw
it. With --timeout 0, it does not wait.

With --pool, the lease is a pool: programs and leases of yours take their memory
from it (berth exec --pool, from_pool in the API) without waiting, and give it
back. The first argument is then its name, and no service.

Without --id, the lease is named after the service: SERVICE, or SERVICE-2,
SERVICE-3, ... if that name is taken.`,
		Example: `  berth allocate embedder 4GiB
  berth allocate embedder 4096 --gpu 1 --ttl 10m
  berth allocate embedder 4GiB --prefer 1 --policy most_free
  berth allocate embedder 4GiB --pid 4711
  berth allocate embedder 4GiB --unit embedder.service
  berth allocate render 20GiB --pool
  berth allocate trainer 80GiB --timeout 5m --priority 10`,
		ValidArgsFunction: con.Services(),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.request.ID, "id", "", "`NAME` of the lease")
	flags.StringVar((*string)(&o.request.GPU), "gpu", "", "lease on this `GPU` only (index or UUID)")
	wishFlags(con, cmd, (*string)(&o.request.Prefer), &o.request.Policy)
	flags.BoolVar(&o.another, "another", false, "lease once more, even if the service has a lease")
	flags.IntVar(&o.request.PID, "pid", 0, "end the lease with the process `PID`")
	flags.StringVar(&o.request.Unit, "unit", "", "count the processes of this systemd `UNIT` or container\nunder the lease")
	flags.Var(&o.ttl, "ttl", "the lease expires after this `TIME` unless renewed,\nas in 10m")
	flags.Var(&o.time, "time", "end the lease and its processes after this `TIME`, as in\n2h (default: your longest_time_seconds, or no limit)")
	flags.Var(&o.timeout, "timeout", "wait this `TIME` for room, as in 30s\n(default: optimization.allocation_timeout)")
	flags.Var(&parkableValue{&o.request}, "parkable", "berth may park it while others wait for its GPU;\nwith =unshared also several processes, which share\nno GPU memory")
	flags.Lookup("parkable").NoOptDefVal = "true"
	flags.BoolVar(&o.request.Pool, "pool", false, "make a pool named SERVICE: leases and programs of\nyours take its memory at once (berth exec --pool)")
	flags.StringVar(&o.request.Comment, "comment", "", "a note of yours, shown by berth leases")
	priority := flags.Int("priority", 0, "requests with a higher `NUMBER` are served first\n(default: the priority of the service)")
	console.CompleteFlag(cmd, "gpu", con.GPUs())
	cmd.SetFlagErrorFunc(negative)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.Changed("priority") {
			o.request.Priority = gpu.Some(*priority)
		}
		memory, err := amount(args[1])
		if err != nil {
			return console.Usage("%v", err)
		}
		o.request.Service, o.request.Memory = words.Service(args[0]), memory
		if o.request.Pool {
			o.request.Service = ""
			if o.request.ID == "" {
				o.request.ID = args[0]
			}
		}
		o.request.TTL, o.request.Timeout, o.request.Wait = o.ttl.Limit(), o.timeout.Opt, true
		o.request.TimeLimit = o.time.Limit()
		switch {
		case flags.Changed("pid") && o.request.PID <= 0:
			return console.Usage("--pid must be 1 or more, not %d", o.request.PID)
		case o.request.PID != 0 && o.request.TTL.Known():
			return console.Usage("--pid and --ttl both say what ends the lease: give one of them")
		case o.request.PID == 0 && !o.request.TTL.Known():
			o.request.Binding = "named"
		}
		switch {
		case o.another:
		case o.request.ID != "":
			o.request.Again = "id"
		default:
			o.request.Again = "service"
		}
		return o.run(cmd.Context())
	}
	return cmd
}

// parkableValue is the flag --parkable.
type parkableValue struct{ request *api.Allocate }

func (v *parkableValue) Set(text string) (err error) {
	v.request.Parkable, v.request.Unshared, err = launch.ParseParkable(text)
	return err
}

func (v *parkableValue) String() string { return "" }

func (v *parkableValue) Type() string { return "bool" }

func (o *allocateOptions) run(ctx context.Context) error {
	o.Endure()
	c, err := o.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	granted, err := o.allocate(ctx, c)
	if err != nil {
		return o.advise(err)
	}
	gpus, err := o.indexesOf(ctx, c, granted)
	if err != nil {
		return err
	}
	return o.Answer(granted, gpus.Granted(granted, o.Screen())...)
}

// allocate asks under the given id, or else under the name of the service. If that is
// taken, it looks for a free id; another request may take that one first, and then
// allocate tries the next.
func (o *allocateOptions) allocate(ctx context.Context, c *client.Client) (api.Lease, error) {
	const tries = 10
	request := o.request
	if request.ID == "" {
		request.ID = request.Service
	}
	for try := 1; ; try++ {
		granted, err := await(ctx, o.Console, c, request.ID, nil, func(ctx context.Context) (api.Lease, error) { return c.Allocate(ctx, request) })
		if o.request.ID != "" || try == tries || !console.IsProblem(err, "duplicate_allocation") {
			return granted, err
		}
		leases, err := c.Leases(ctx)
		if err != nil {
			return api.Lease{}, err
		}
		request.ID = freeID(request.Service, leases)
	}
}

// indexesOf returns the indexes of the devices of a lease. It asks a daemon that
// does not send them with the lease.
func (o *allocateOptions) indexesOf(ctx context.Context, c *client.Client, l api.Lease) (view.GPUs, error) {
	gpus := view.GPUs{}
	for _, p := range l.Parts {
		if index, sent := p.Index.Get(); sent {
			gpus[p.GPU] = index
		} else if !o.JSON {
			return o.Indexes(ctx, c)
		}
	}
	return gpus, nil
}

// freeID returns the name of a service, with a number if the name is taken.
func freeID(service string, leases api.Leases) string {
	taken := map[string]bool{}
	for id := range view.Holders(leases) {
		taken[id] = true
	}
	id := service
	for n := 2; taken[id]; n++ {
		id = service + "-" + strconv.Itoa(n)
	}
	return id
}

// advise adds how to find out who is in the way, if anybody is.
func (o *allocateOptions) advise(err error) error {
	problem := (*api.Problem)(nil)
	if !errors.As(err, &problem) || problem.Extra["possible"] != true {
		return err
	}
	hint := "see who holds what: berth explain --slots 0 --memory " + strings.ReplaceAll(o.request.Memory.Exact(), " ", "")
	if o.request.Service != "" {
		hint += " --service " + words.Shell(o.request.Service)
	}
	if o.request.GPU != "" {
		hint += " --gpu " + string(o.request.GPU)
	}
	return console.Hinted(err, hint)
}

// leastPlain is the least amount that a number without a unit may mean: nobody leases a
// few MiB, and whoever writes 4 means GiB.
const leastPlain gpu.MiB = 64

// amount reads an amount of memory. A number without a unit is MiB, unless it is so small
// that it must be a mistake.
func amount(text string) (gpu.MiB, error) {
	memory, err := gpu.ParseMiB(text)
	if plain := words.NoUnit(text, "GiB", "MiB"); plain != nil && err == nil && memory < leastPlain {
		return 0, plain
	}
	return memory, err
}

// negative reports a negative number as an amount of memory that is too small.
// The framework takes it for a flag.
func negative(_ *cobra.Command, err error) error {
	if _, number, found := strings.Cut(err.Error(), "' in -"); found && number != "" && unicode.IsDigit(rune(number[0])) {
		return console.Usage("%q is not an amount of memory: it must be above 0", "-"+number)
	}
	return err
}
