package desk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process/minder"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Services are the programs that berth brings when somebody asks for them.
type Services struct {
	leases  *Leases
	devices *Devices

	owner      *owner.Owner // nil if this daemon runs no programs of services
	front      Front        // nil if this daemon runs no programs of services
	logs       Logs         // nil if this daemon runs no programs
	operations *throughput.Counter
	ledger     *ledger.Ledger
	users      *users.Names
	config     func() *config.Config
	record     recorder
}

// List returns the services whose programs berth runs, as a caller may see them.
func (d *Services) List(by access.Actor) []api.Service {
	list := []api.Service{}
	if d.owner == nil {
		return list
	}
	for _, s := range d.owner.List() {
		list = append(list, d.seen(by, s))
	}
	return list
}

// Show returns a service as a caller may see it.
func (d *Services) Show(by access.Actor, name string) (api.Service, error) {
	s, err := d.find(name)
	if err != nil {
		return api.Service{}, err
	}
	return d.seen(by, s), nil
}

// find finds a service whose program berth runs.
func (d *Services) find(name string) (api.Service, error) {
	name = words.Service(name)
	if d.owner != nil {
		if s, is := d.owner.Find(name); is {
			return s, nil
		}
	}
	if _, configured := d.config().Services[name]; configured {
		return api.Service{}, Refuse(Unknown, "no_program", "berth runs no program for the service %s: its settings have no command (services.%s.command). Nothing was changed.", name, name)
	}
	refusal := Refuse(Unknown, "unknown_service", "There is no service %q here. berth services (GET /api/services) lists them.", words.Cut(name, 128))
	if d.owner != nil {
		known := []string{}
		for _, s := range d.owner.List() {
			known = append(known, s.Name)
		}
		refusal.Extra = map[string]any{"known": known}
	}
	return api.Service{}, refusal
}

// seen returns a service as a caller may see it, with what it waits for.
func (d *Services) seen(by access.Actor, s api.Service) api.Service {
	s = seenService(by, s)
	if s.State == "waiting" || s.State == "returning" {
		if why := d.waits(by, s.Name); why != "" {
			s.Why = why
		}
	}
	return s
}

// waits says what is in the way of the lease of a service that waits, and who holds it;
// empty if it does not wait.
func (d *Services) waits(by access.Actor, name string) string {
	k, has := d.owner.KeyOf(name)
	if !has {
		return ""
	}
	e, waits := d.ledger.ExplainWaiting(k)
	switch {
	case !waits || e.Refusal == nil && e.Quota == nil && len(e.Ahead) == 0:
		return ""
	case e.Quota != nil:
		return QuotaText(e.Quota, lease.Holder{UID: k.UID, User: k.User}, by)
	case e.Refusal == nil:
		return fmt.Sprintf("%s %s before it in the queue", words.Count(len(e.Ahead), "request"), words.Form(len(e.Ahead), "is", "are"))
	}
	text := strings.TrimPrefix(obstacle(e.Refusal), ": ")
	first, able := firstObstacle(e.Refusal)
	if able == 0 || first.Code != placement.NoMemory && first.Code != placement.NoSlot && first.Code != placement.Alone {
		return text
	}
	var holders []string
	for _, h := range e.Holdings[first.GPU] {
		if h.Lease.State == lease.Parked && h.Measured == 0 {
			continue
		}
		user := h.Lease.Holder.User
		if access.May(by, access.Name, access.Object{}) != nil && !access.Owns(by, access.Of(access.Held, h.Lease.Holder.UID, user)) {
			user = "another user"
		}
		holders = append(holders, fmt.Sprintf("%s of %s holds %s", h.Lease.ID, user, max(h.Part.Memory, h.Measured)))
	}
	if len(holders) > 0 {
		text += "; " + words.Few(holders, 3)
	}
	if used, any := e.Foreign[first.GPU]; any && first.Code == placement.NoMemory {
		text += "; " + used.Memory.String() + " is used under no lease"
	}
	return text
}

// QuotaText says which quota or limit is in the way of a request of a holder. The limits of
// a user, and what the user has of them, are for those who may see all that the user has.
func QuotaText(err error, of lease.Holder, by access.Actor) string {
	limit := (*quota.LimitError)(nil)
	switch {
	case !errors.As(err, &limit):
		return err.Error()
	case of.Owner() == lease.OwnerOf(&by):
		return limit.Error()
	case access.May(by, access.Inspect, access.Of(access.Held, of.UID, of.User)) != nil:
		return "a limit of its user is in the way"
	}
	return limit.Others()
}

// ownedBy returns the service as an object that belongs to its user.
func ownedBy(s *api.Service) access.Object { return access.Named(access.Held, s.User) }

// notYours replaces what only the user of a service and operators see.
const notYours = "its user and operators see why"

// seenService returns a service as a caller may see it. Of the programs of others,
// everybody sees how they are, where and since when.
func seenService(by access.Actor, s api.Service) api.Service {
	if access.May(by, access.Inspect, ownedBy(&s)) == nil {
		return s
	}
	s.PID, s.Command, s.Directory, s.Log, s.Port, s.Callers = 0, nil, "", "", 0, nil
	if s.Failure != nil {
		failure := *s.Failure
		if s.State == "failed" || s.Why == failure.Why {
			s.Why = notYours
		}
		failure.Why, failure.Log = notYours, nil
		s.Failure = &failure
	}
	s.Why = service.Tokenless(s.Why)
	if s.Stopped != nil {
		stopped := *s.Stopped
		stopped.By = service.Tokenless(stopped.By)
		s.Stopped = &stopped
	}
	if access.May(by, access.Name, access.Object{}) != nil {
		s.User = "another user"
		if s.Why != "" { // it may name who stopped it
			s.Why = notYours
		}
		if s.Stopped != nil {
			s.Stopped.By, s.Stopped.Why = "another user", ""
		}
	}
	return s
}

// ServiceChange is what the desk does to a service.
type ServiceChange string

// The changes.
const (
	StartService   ServiceChange = "start"
	StopService    ServiceChange = "stop"
	RestartService ServiceChange = "restart"
	MoveService    ServiceChange = "move"
)

// Change starts, stops, restarts or moves a service. The answer comes when that is
// written down; the service follows.
func (d *Services) Change(ctx context.Context, by Caller, name string, what ServiceChange, b api.ServiceOrder) (api.Service, error) {
	s, err := d.find(name)
	if err != nil {
		return api.Service{}, err
	}
	object := ownedBy(&s)
	if access.May(by.Actor, access.Name, access.Object{}) != nil {
		object.User = "" // the refusal names the owner
	}
	if err := access.May(by.Actor, access.Serve, object); err != nil {
		return api.Service{}, Refused(fmt.Errorf("%s %s: %w", what, s.Name, err))
	}
	uuid := ""
	switch {
	case what != MoveService && b.GPU != "":
		return api.Service{}, wrongFields(lease.FieldErrors{{Field: "gpu", Detail: "is for move alone; leave it out"}})
	case what == MoveService && b.GPU == "":
		return api.Service{}, wrongFields(lease.FieldErrors{{Field: "gpu", Detail: "is missing: say which device it shall come to"}})
	case what == MoveService:
		found, err := d.devices.Find(b.GPU)
		if err != nil {
			return api.Service{}, err
		}
		uuid = found.Device.UUID
	}
	why := gpu.Printable(b.Why, 256)
	do := func() error {
		switch what {
		case StartService:
			return d.owner.Start(s.Name, by.Actor, why)
		case StopService:
			return d.owner.Stop(s.Name, by.Actor, why)
		case RestartService:
			return d.owner.Restart(s.Name, by.Actor, why)
		}
		return d.owner.Move(s.Name, uuid, by.Actor, why)
	}
	by.aside()
	if access.Owns(by.Actor, ownedBy(&s)) {
		err = do()
	} else {
		after := map[string]string{"service": string(what)}
		if uuid != "" {
			after["gpu"] = uuid
		}
		err = d.record.act(api.AuditEntry{
			Who: audit.Who(by.Actor), What: access.Serve.String(), Object: api.AuditObject{Kind: "service", Owner: s.User, ID: s.Name}, After: after, Why: why,
		}, do)
	}
	by.back(ctx)
	if err != nil {
		return api.Service{}, refusedService(s.Name, err)
	}
	return d.Show(by.Actor, s.Name)
}

// refusedService returns the refusal for an error of the owner of services.
func refusedService(name string, err error) *Refusal {
	switch {
	case errors.Is(err, owner.ErrUnknown):
		return because(fmt.Errorf("%s: %w", name, err), Unknown, "unknown_service", "berth services (GET /api/services) lists them.")
	case errors.Is(err, owner.ErrState):
		return because(errors.New(strings.TrimSuffix(err.Error(), ".")), Conflict, "wrong_state", "Nothing was changed.")
	}
	return Refused(err)
}

// Log writes the log of a service to w. A process with the rights of its user reads
// it. Begin is called before anything is written. A log that is followed ends with ctx.
func (d *Services) Log(ctx context.Context, by Caller, name string, q LogQuery, begin func(offset int64), w io.Writer) error {
	s, err := d.find(name)
	if err != nil {
		return err
	}
	object := ownedBy(&s)
	if access.May(by.Actor, access.Name, access.Object{}) != nil {
		object.User = ""
	}
	if err := access.May(by.Actor, access.Inspect, object); err != nil {
		return Refused(fmt.Errorf("read the log of %s: %w", s.Name, err))
	}
	if s.Log == "" {
		return Refuse(Unknown, "no_log", "%s has no log: its program was never started. berth services %[1]s says why.", s.Name)
	}
	reading := minder.Reading{User: s.User, UID: os.Geteuid(), Path: s.Log, Lines: q.Lines, Follow: q.Follow}
	if reading.UID == 0 { // only a daemon of root runs programs of others
		uid, _, known := d.users.Account(s.User)
		if !known {
			return Refuse(Unavailable, "no_answer", "The user database does not know %s, or does not answer. Ask again.", s.User)
		}
		reading.UID = uid
	}
	until := make(chan struct{})
	if !q.Follow {
		close(until)
	}
	err = d.logs.ReadLog(ctx, reading, until, begin, w)
	if errors.Is(err, fs.ErrNotExist) {
		return Refuse(Unknown, "no_log", "The log of %s is gone: there is no file %s any more.", s.Name, s.Log)
	}
	if err != nil && ctx.Err() == nil {
		return because(err, Failed, "log_failed", "")
	}
	return nil
}

// ofService refuses to act on the lease of a service's program, which berth itself brings
// and sends away.
func ofService(k lease.Key) error {
	if k.Run.Kind != lease.OfService {
		return nil
	}
	return Refused(k.Free())
}
