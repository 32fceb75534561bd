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
	"github.com/berth-gpu/berth/internal/config"
)

func (s *server) registerSettings() {
	op := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: "/api/gpu/config" + path, Summary: summary, Tags: []string{"configuration"}}
	}
	huma.Register(s.api, op("config", http.MethodGet, "", "The gpu section of the configuration, as it is in force"), s.config)
	huma.Register(s.api, op("config-sources", http.MethodGet, "/sources", "Every setting, its value and where it comes from"), s.sources)

	change := op("config-change", http.MethodPut, "", "Change the gpu section")
	change.Description = "Any part of the section; what is absent stays, and null goes back to what the file says. " +
		"The whole result is validated: it applies at once and survives a restart, or nothing changes."
	change.SkipValidateBody, change.MaxBodyBytes = true, maxBody
	huma.Register(s.api, change, s.changeConfig)
	// The body is taken raw, and would be described so.
	s.api.OpenAPI().Paths[change.Path].Put.RequestBody.Content = map[string]*huma.MediaType{
		"application/json": {Schema: s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.GPUChange](), true, "")},
	}
}

func (s *server) config(context.Context, *struct{}) (*answer[api.GPUConfig], error) {
	return ok(s.Settings.GPU())
}

// sources lists every setting. What hooks run is for administrators.
func (s *server) sources(ctx context.Context, _ *struct{}) (*answer[api.ConfigFields], error) {
	fields := slices.Clone(s.Settings.Fields())
	if !sightOf(ctx).all() {
		for i, f := range fields {
			if strings.HasPrefix(f.Field, "hooks.") {
				fields[i].Value = "not shown"
			}
		}
	}
	return ok(api.ConfigFields{Fields: fields})
}

// configChange takes the body as it came, because what is absent and what is
// null mean different things, and because the one who validates the file
// validates this too.
type configChange struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

func (s *server) changeConfig(ctx context.Context, in *configChange) (*answer[api.GPUConfig], error) {
	if media, _, err := mime.ParseMediaType(in.ContentType); err != nil || media != "application/json" {
		return nil, problem(http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be JSON: send Content-Type: application/json.")
	}
	if err := s.Settings.Change(ctx, identityOf(ctx).Actor, in.RawBody); err != nil {
		return nil, refusedChange(err)
	}
	return ok(s.Settings.GPU())
}

// refusedChange says what is wrong with a change, field by field.
func refusedChange(err error) error {
	wrong := (*config.Error)(nil)
	if !errors.As(err, &wrong) {
		return problem(http.StatusInternalServerError, "not_saved", "Nothing was changed: %v.", err)
	}
	p := problem(http.StatusUnprocessableEntity, "invalid_config", "The configuration was refused, and nothing was changed; see fields.")
	for _, c := range wrong.Complaints {
		if c.Field == "" {
			return problem(http.StatusBadRequest, "malformed_body", "The body is not what this path takes: %s. Nothing was changed.", c.Reason)
		}
		p.Fields = append(p.Fields, api.FieldProblem{Field: c.Field, Detail: c.Reason})
	}
	return p
}
