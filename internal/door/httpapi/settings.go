package httpapi

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/text/words"
)

func registerSettings(s *server) {
	op := func(pattern, id, summary, description string, errors ...int) huma.Operation {
		return on(pattern, "configuration", id, summary, description, errors...)
	}
	serve(s, op("GET /api/gpu/config", "config", "The configuration that can change at run time, as it is in force", ""), s.config)
	serve(s, op("GET /api/gpu/config/sources", "config-sources", "Every setting, its value and where it comes from", ""), s.sources)
	change := op("PUT /api/gpu/config", "config-change", "Change the configuration at run time",
		"The body has any part of the section. Absent fields stay as they are; null resets a field to what the file says. "+
			"The daemon validates the whole result. A valid change applies at once and survives a restart; otherwise nothing changes.")
	change.SkipValidateBody = true
	serve(s, change, s.changeConfig)
	serve(s, op("POST /api/gpu/config/reload", "config-reload", "Read the configuration again",
		"Reads berth.yaml and the other sources again, as SIGHUP does. A file with a mistake changes nothing, and the answer names the line. "+
			"The answer also names the settings of the file that a change at run time overrides.", http.StatusConflict), s.reloadConfig)
	// The framework would describe the body as raw bytes.
	s.api.OpenAPI().Paths[change.Path].Put.RequestBody.Content = map[string]*huma.MediaType{
		"application/json": {Schema: listChange(s.api.OpenAPI().Components.Schemas)},
	}
}

// listChange lists the schema GPUChange: any part of GPUConfig, and hooks, whose secrets
// GPUConfig leaves out.
func listChange(schemas huma.Registry) *huma.Schema {
	change := changeOf(schemas, schemas.Schema(reflect.TypeFor[api.GPUConfig](), false, ""))
	change.Properties["hooks"] = schemas.Schema(reflect.TypeFor[map[string]api.HookConfig](), true, "")
	for name, of := range map[string]string{"devices": "a device", "services": "a service", "hooks": "a hook"} {
		change.Properties[name].Description = "Changes by name; null for " + of + " removes everything that was set for it at run time."
	}
	const name = "GPUChange"
	schemas.Map()[name] = change
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// changeOf returns the schema of a change of a section: no field is required, and null
// resets a field.
func changeOf(schemas huma.Registry, section *huma.Schema) *huma.Schema {
	if section.Ref != "" {
		section = schemas.SchemaFromRef(section.Ref)
	}
	change := *section
	if change.Type != huma.TypeObject || change.Properties == nil {
		return &change
	}
	change.Required, change.Properties = nil, map[string]*huma.Schema{}
	for name, property := range section.Properties {
		change.Properties[name] = changeOf(schemas, property)
		change.Properties[name].Nullable = true
	}
	return &change
}

// config returns the configuration as the caller may see it.
func (s *server) config(ctx context.Context, _ *struct{}) (*answer[api.GPUConfig], error) {
	return ok(sightOf(ctx).config(s.Settings.GPU()))
}

// config returns the configuration as the caller may see it. Only callers who may see the
// names of users see who may use a service, how its processes are recognized, and whom its
// program runs as. Only operators see its program.
func (s sight) config(c api.GPUConfig) api.GPUConfig {
	for name, service := range c.Services {
		if !s.names() {
			service.Users, service.Match, service.User = nil, api.MatchConfig{}, ""
		}
		if !s.all() {
			service.Command, service.Directory, service.Sleep, service.Wake = nil, "", nil, nil
		}
		c.Services[name] = service
	}
	if !s.all() {
		c.Front.TLSCert, c.Front.TLSKey, c.Front.User = "", "", ""
	}
	return c
}

// sources lists the settings. Only administrators see the settings of users, groups and
// hooks, whose names are names of people and places. Only callers who may see the names
// of users see who may use a service, and how its processes are recognized, and only
// operators see its program.
func (s *server) sources(ctx context.Context, _ *struct{}) (*answer[api.ConfigFields], error) {
	sight := sightOf(ctx)
	fields := slices.DeleteFunc(slices.Clone(s.Settings.Fields()), func(f api.ConfigField) bool {
		section, _, _ := strings.Cut(f.Field, ".")
		return !sight.governs() && slices.Contains([]string{"users", "groups", "hooks"}, section)
	})
	for i, f := range fields {
		names := strings.HasPrefix(f.Field, "services.") && (strings.HasSuffix(f.Field, ".users") || strings.HasSuffix(f.Field, ".user") || strings.Contains(f.Field, ".match."))
		if names && !sight.names() || config.Private(f.Field) && !sight.all() {
			fields[i].Value = "not shown"
		}
	}
	return ok(api.ConfigFields{Fields: fields})
}

// configChange keeps the body undecoded, because absent and null mean different
// things, and because the code that validates the file validates the body too.
type configChange struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

func (s *server) changeConfig(ctx context.Context, in *configChange) (*answer[api.GPUConfig], error) {
	if media, _, err := mime.ParseMediaType(in.ContentType); err != nil || media != "application/json" {
		return nil, problems.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be JSON: send Content-Type: application/json.")
	}
	if err := s.Settings.Change(ctx, identityOf(ctx).Actor, in.RawBody); err != nil {
		return nil, refusedChange(err)
	}
	return ok(sightOf(ctx).config(s.Settings.GPU()))
}

// refusedChange returns the problem of a refused change, with an entry for each field.
func refusedChange(err error) error {
	wrong, refused := (*config.Error)(nil), (*access.Refusal)(nil)
	if errors.As(err, &refused) {
		return problems.New(http.StatusForbidden, "not_allowed", "%s.", words.UpperFirst(err.Error()))
	}
	if errors.Is(err, audit.ErrUnavailable) {
		return err
	}
	if !errors.As(err, &wrong) {
		return problems.New(http.StatusServiceUnavailable, "not_saved", "Nothing was changed: %v. Look at the disk of the state folder; then try again.", err)
	}
	p := problems.New(http.StatusUnprocessableEntity, "invalid_config", "The configuration was refused, and nothing was changed.")
	for _, c := range wrong.Complaints {
		if c.Field == "" {
			return problems.New(http.StatusBadRequest, "malformed_body", "The body does not have the form that this path takes: %s. Nothing was changed.", c.Reason)
		}
		p.Fields = append(p.Fields, api.FieldProblem{Field: c.Field, Detail: c.Reason})
	}
	return p
}

func (s *server) reloadConfig(ctx context.Context, _ *struct{}) (*answer[api.ConfigReload], error) {
	done, err := s.Settings.Reload(identityOf(ctx).Actor)
	if err != nil {
		return nil, refusedReload(err)
	}
	return ok(done)
}

// refusedReload reports the errors in the sources, line by line. The request itself is
// valid, so the refusal is a conflict.
func refusedReload(err error) error {
	wrong := (*config.Error)(nil)
	if errors.Is(err, audit.ErrUnavailable) {
		return err
	}
	if !errors.As(err, &wrong) {
		return problems.New(http.StatusConflict, "not_reloaded", "%s.", words.UpperFirst(err.Error()))
	}
	p := problems.New(http.StatusConflict, "invalid_file", "The configuration was refused, and nothing was changed.")
	for _, c := range wrong.Complaints {
		where := c
		where.Field = ""
		p.Fields = append(p.Fields, api.FieldProblem{Field: c.Field, Detail: where.String()})
	}
	return p
}
