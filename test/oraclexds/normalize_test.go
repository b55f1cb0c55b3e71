package oraclexds_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// normalise makes what is said in two ways be said in one, in place:
//   - secrets by name become the certificates that they are;
//   - extensions by name become the configuration that they are, beside what asks for them by name;
//   - policies of RBAC, whose names are made up, are numbered in the order of their content.
//
// Resources are by name, so that their order is nothing.
func normalise(t tree) {
	n := normaliser{secrets: t["Secret"], extensions: t["TypedExtensionConfig"]}
	delete(t, "Secret")
	delete(t, "TypedExtensionConfig")
	for _, list := range t {
		for _, resource := range list {
			n.walk(resource)
		}
	}
}

type normaliser struct{ secrets, extensions map[string]any }

// walk normalises a value and all in it. What contains another reference goes before it.
func (n normaliser) walk(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			n.walk(element)
		}
	case object:
		n.inlineExtension(value)
		n.inlineCertificates(value)
		n.inlineRoots(value)
		for _, field := range value {
			n.walk(field)
		}
		renumber(value)
	}
}

// overADS is how a resource is asked for in the stream that named it.
func overADS() any { return object{"ads": object{}, "resource_api_version": "V3"} }

// secret looks up what a reference names. A reference that leads elsewhere, or nowhere, is none.
func (n normaliser) secret(reference any, kind string) any {
	o, _ := reference.(object)
	name, _ := o["name"].(string)
	found, _ := n.secrets[name].(object)
	if found == nil || !reflect.DeepEqual(o["sds_config"], overADS()) {
		return nil
	}
	return found[kind]
}

func (n normaliser) inlineCertificates(o object) {
	const field = "tls_certificate_sds_secret_configs"
	list, _ := o[field].([]any)
	var found []any
	for _, reference := range list {
		certificate := n.secret(reference, "tls_certificate")
		if certificate == nil {
			return
		}
		found = append(found, certificate)
	}
	if found != nil {
		delete(o, field)
		o["tls_certificates"] = found
	}
}

func (n normaliser) inlineRoots(o object) {
	const alone, combined = "validation_context_sds_secret_config", "combined_validation_context"
	from, field, merged := o, alone, object{}
	if both, ok := o[combined].(object); ok {
		from, field = both, combined
		if with, ok := both["default_validation_context"].(object); ok {
			merged = with
		}
	}
	roots, ok := n.secret(from[alone], "validation_context").(object)
	if !ok {
		return
	}
	for key, value := range roots {
		merged[key] = value
	}
	delete(o, field)
	o["validation_context"] = merged
}

// inlineExtension leaves the reference, so that it is a difference, and what it leads to is compared.
func (n normaliser) inlineExtension(o object) {
	name, _ := o["name"].(string)
	if found, ok := n.extensions[name].(object); ok && o["config_discovery"] != nil {
		o["typed_config"] = found["typed_config"]
	}
}

func renumber(o object) {
	policies, ok := o["policies"].(object)
	if !ok {
		return
	}
	texts := map[string]any{}
	var order []string
	for _, policy := range policies {
		text := compact(policy.(object)["principals"]) + compact(policy)
		texts[text] = policy
		order = append(order, text)
	}
	slices.Sort(order)
	numbered := object{}
	for i, text := range order {
		numbered[fmt.Sprintf("policy-%d", i)] = texts[text]
	}
	o["policies"] = numbered
}

// compact prints JSON in one line, with its fields in the order of their names.
func compact(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(text.String())
}
