package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

// maxBody bounds the body of a request.
const maxBody = 64 << 10

// object is a JSON object whose keys may be spelled in camel or snake case, in any case of letters.
type object map[string]any

// value is what the object has under a key. Camel case goes first, and the exact spelling before others.
func (o object) value(name, alias string) any {
	for _, spelled := range []string{name, alias} {
		if v, ok := o[spelled]; ok {
			return v
		}
		for _, key := range slices.Sorted(maps.Keys(o)) {
			if strings.EqualFold(key, spelled) {
				return o[key]
			}
		}
	}
	return nil
}

// decodeOverrides reads the body of a POST as Consul does: unknown keys are ignored, and types are
// weak. It returns what is wrong, in Consul's words; empty when nothing is.
func decodeOverrides(body io.Reader) (out chain.Overrides, wrong string) {
	// It is read to its end, since a connection is not watched for a reader that leaves before that.
	text, err := io.ReadAll(io.LimitReader(body, maxBody))
	var o object
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&o)
	}
	if err == nil {
		out, err = overridesOf(o)
	}
	if err != nil {
		return out, "Request decoding failed: " + err.Error()
	}
	switch out.MeshGateway {
	case chain.MeshGatewayDefault, chain.MeshGatewayNone, chain.MeshGatewayLocal, chain.MeshGatewayRemote:
		return out, ""
	}
	return out, "Invalid OverrideMeshGateway.Mode parameter"
}

func overridesOf(o object) (out chain.Overrides, err error) {
	if out.Protocol, err = weakText(o.value("OverrideProtocol", "override_protocol")); err != nil {
		return out, fmt.Errorf("OverrideProtocol: %w", err)
	}
	if out.ConnectTimeout, err = weakDuration(o.value("OverrideConnectTimeout", "override_connect_timeout")); err != nil {
		return out, fmt.Errorf("OverrideConnectTimeout: %w", err)
	}
	gateway, err := weakObject(o.value("OverrideMeshGateway", "override_mesh_gateway"))
	if err != nil {
		return out, fmt.Errorf("OverrideMeshGateway: %w", err)
	}
	mode, err := weakText(gateway.value("Mode", "mode"))
	if err != nil {
		return out, fmt.Errorf("OverrideMeshGateway.Mode: %w", err)
	}
	out.MeshGateway = chain.MeshGatewayMode(mode)
	return out, nil
}

// single takes the only item out of a list.
func single(v any) any {
	if list, ok := v.([]any); ok && len(list) == 1 {
		return list[0]
	}
	return v
}

func weakText(v any) (string, error) {
	switch v := single(v).(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		if v {
			return "1", nil
		}
		return "0", nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", errors.New("must be text")
}

func weakDuration(v any) (time.Duration, error) {
	switch v := single(v).(type) {
	case nil:
		return 0, nil
	case string:
		return time.ParseDuration(v)
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case float64:
		return time.Duration(v), nil
	}
	return 0, errors.New(`must be text like "3s", or a number of nanoseconds`)
}

func weakObject(v any) (object, error) {
	switch v := single(v).(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	}
	return nil, errors.New("must be an object")
}
