package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/problems"
)

func registerServices(s *server) {
	const missing, conflict, down = http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable
	on := func(pattern, id, summary, description string, errors ...int) huma.Operation {
		return on(pattern, "services", id, summary, description, errors...)
	}
	serve(s, on("GET /api/services", "services", "The services whose programs berth runs", "Only its user and operators see the command, the folder, the log and the processes of a service, and why it failed."), s.services)
	serve(s, on("GET /api/services/{name}", "service", "One service whose program berth runs", "", missing), s.service)
	for _, change := range []struct {
		to                   desk.ServiceChange
		id, summary, details string
	}{
		{desk.StartService, "start-service", "Start a service", "A service that was stopped takes requests again, and is started at once."},
		{desk.StopService, "stop-service", "Stop a service until somebody starts it", "It ends the requests that it has, and its program. Requests are refused with who stopped it and why, also after a restart of the daemon."},
		{desk.RestartService, "restart-service", "Stop the program of a service and start it again", "Requests that come meanwhile wait."},
		{desk.MoveService, "move-service", "Move a service to another device", "Its program goes away here and comes there. Requests that come meanwhile wait."},
	} {
		serve(s, on("POST /api/services/{name}/"+string(change.to), change.id, change.summary, change.details+" The answer comes when that is written down; the service follows.", missing, conflict, down), func(ctx context.Context, in *changeService) (*answer[api.Service], error) {
			changed, err := s.Desk.Services.Change(ctx, askerOf(ctx), in.Name, change.to, given(in.Body))
			return &answer[api.Service]{changed}, err
		})
	}
	log := on("GET /api/services/{name}/log", "service-log", "The log of a service",
		"A process with the rights of its user reads it. Without follow, the answer has at most the last 64 MiB. With follow, it goes on until the caller leaves.", missing, conflict, http.StatusUnprocessableEntity)
	longest := 128
	log.Parameters = []*huma.Param{
		{Name: "name", In: "path", Required: true, Description: "Name of the service.", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest}},
		{Name: "lines", In: "query", Description: "Only the last so many lines.", Schema: &huma.Schema{Type: huma.TypeInteger}},
		{Name: "follow", In: "query", Description: "Go on with what the program writes later.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
	}
	s.raw(log, "text/plain", s.serviceLog)
}

type serviceQuery struct {
	Name string `path:"name" doc:"Name of the service." maxLength:"128"`
}

// changeService has the parameters of a route that changes a service.
type changeService struct {
	Name string `path:"name" doc:"Name of the service." maxLength:"128"`
	Body *api.ServiceOrder
}

func (s *server) services(ctx context.Context, _ *struct{}) (*answer[api.Services], error) {
	by := identityOf(ctx).Actor
	return ok(api.Services{Services: s.Desk.Services.List(by), Front: s.Desk.Services.FrontState(by)})
}

func (s *server) service(ctx context.Context, in *serviceQuery) (*answer[api.Service], error) {
	found, err := s.Desk.Services.Show(identityOf(ctx).Actor, in.Name)
	return &answer[api.Service]{found}, err
}

// serviceLog answers with the log of a service, as text.
func (s *server) serviceLog(w http.ResponseWriter, r *http.Request) {
	s.log(w, r, func(by desk.Caller, q desk.LogQuery, out *flowing) error {
		return s.Desk.Services.Log(r.Context(), by, r.PathValue("name"), q, out.begin, out)
	})
}

// log answers with a log, as text.
func (s *server) log(w http.ResponseWriter, r *http.Request, read func(by desk.Caller, q desk.LogQuery, out *flowing) error) {
	query := r.URL.Query()
	lines, err := strconv.Atoi(query.Get("lines"))
	if query.Get("lines") != "" && (err != nil || lines < 0) {
		problems.Write(w, problems.New(http.StatusUnprocessableEntity, "invalid_request", "lines must be a number of lines."))
		return
	}
	is := func(name string) bool { return strings.EqualFold(query.Get(name), "true") }
	out := &flowing{ResponseWriter: w, flush: is("follow")}
	by := askerOf(r.Context())
	if by.Place != nil {
		by.Place.Aside()
	}
	err = read(by, desk.LogQuery{Errors: is("errors"), Lines: lines, Follow: is("follow")}, out)
	if err == nil {
		out.begin(0)
		return
	}
	if out.begun { // the connection breaks, so that nobody takes a part for the whole
		panic(http.ErrAbortHandler)
	}
	if p := (*api.Problem)(nil); errors.As(problemOf(err), &p) {
		problems.Write(w, p)
	}
}
