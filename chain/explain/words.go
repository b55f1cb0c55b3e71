package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// percent prints a weight, which has two decimals at most.
func percent(w float32) string { return strconv.FormatFloat(float64(w), 'f', -1, 32) + " %" }

// Match says in one line which requests a route takes.
func Match(r *chain.ServiceRoute) string {
	if r == nil || r.Match == nil || r.Match.HTTP == nil {
		return "any request"
	}
	m := r.Match.HTTP
	var parts []string
	for _, p := range []struct{ name, value string }{
		{"path ", m.PathExact}, {"path prefix ", m.PathPrefix}, {"path ~ ", m.PathRegex},
	} {
		if p.value != "" {
			parts = append(parts, p.name+p.value)
		}
	}
	if m.CaseInsensitive && len(parts) > 0 {
		parts[0] += " in any case"
	}
	for i := range m.Header {
		parts = append(parts, header(&m.Header[i]))
	}
	for i := range m.QueryParam {
		q := &m.QueryParam[i]
		parts = append(parts, "query "+q.Name+matcher(
			forms{{" = ", q.Exact}, {" ~ ", q.Regex}}, q.Present))
	}
	if len(m.Methods) > 0 {
		parts = append(parts, "method "+strings.Join(m.Methods, "|"))
	}
	if len(parts) == 0 {
		return "any request"
	}
	return strings.Join(parts, ", ")
}

func header(h *chain.HeaderMatch) string {
	text := "header " + h.Name + matcher(forms{
		{" = ", h.Exact}, {" begins with ", h.Prefix}, {" ends with ", h.Suffix}, {" ~ ", h.Regex},
	}, h.Present)
	if h.Invert {
		return "not (" + text + ")"
	}
	return text
}

type forms []struct{ sign, value string }

func matcher(f forms, present bool) string {
	for _, m := range f {
		if m.value != "" {
			return m.sign + m.value
		}
	}
	if present {
		return " present"
	}
	return ""
}

// Does says what a route does to the requests it sends on.
func Does(r *chain.ServiceRoute) []Fact {
	if r == nil {
		return nil
	}
	return routeFacts(r.Destination)
}

func routeFacts(d *chain.RouteDestination) []Fact {
	if d == nil {
		return nil
	}
	var list []Fact
	say := func(when bool, format string, args ...any) {
		if when {
			list = append(list, Fact{What: "route: " + fmt.Sprintf(format, args...)})
		}
	}
	say(d.PrefixRewrite != "", "path rewritten to %s", d.PrefixRewrite)
	say(d.RequestTimeout != 0, "request timeout %s", d.RequestTimeout)
	say(d.IdleTimeout != 0, "idle timeout %s", d.IdleTimeout)
	say(d.NumRetries > 0, "%d retries", d.NumRetries)
	say(d.RetryOnConnectFailure, "retry on connect-failure")
	say(len(d.RetryOn) > 0, "retry on %s", strings.Join(d.RetryOn, ", "))
	say(len(d.RetryOnStatusCodes) > 0, "retry on status %s", strings.Trim(fmt.Sprint(d.RetryOnStatusCodes), "[]"))
	return append(list, Headers(d.RequestHeaders, d.ResponseHeaders)...)
}

// Headers says which headers of requests and responses are changed; each may be nil.
func Headers(request, response *chain.HeaderModifiers) []Fact {
	var list []Fact
	for _, m := range []struct {
		what string
		*chain.HeaderModifiers
	}{{"request", request}, {"response", response}} {
		if m.HeaderModifiers == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(m.Add)) {
			list = append(list, Fact{What: m.what + " header added: " + name + ": " + m.Add[name]})
		}
		for _, name := range slices.Sorted(maps.Keys(m.Set)) {
			list = append(list, Fact{What: m.what + " header set: " + name + ": " + m.Set[name]})
		}
		for _, name := range m.Remove {
			list = append(list, Fact{What: m.what + " header removed: " + name})
		}
	}
	return list
}
