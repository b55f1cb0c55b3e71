package scenario

import (
	"fmt"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// anyConfig is the packed configuration of a filter.
type anyConfig = anypb.Any

// allows reports whether rules let a connection or a request pass. Without rules they do.
func allows(rules *rbacv3.RBAC, a arrival) (bool, error) {
	if rules == nil {
		return true, nil
	}
	for _, policy := range rules.GetPolicies() {
		if err := only(policy, "permissions", "principals"); err != nil {
			return false, err
		}
		about, err := anyOf(policy.GetPrincipals(), func(p *rbacv3.Principal) (bool, error) { return isPrincipal(p, a) })
		if err != nil {
			return false, err
		}
		does, err := anyOf(policy.GetPermissions(), func(p *rbacv3.Permission) (bool, error) { return isPermission(p, a) })
		if err != nil {
			return false, err
		}
		if about && does {
			return rules.GetAction() == rbacv3.RBAC_ALLOW, nil
		}
	}
	return rules.GetAction() == rbacv3.RBAC_DENY, nil
}

func anyOf[T any](list []T, holds func(T) (bool, error)) (bool, error) {
	for _, one := range list {
		if ok, err := holds(one); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func allOf[T any](list []T, holds func(T) (bool, error)) (bool, error) {
	for _, one := range list {
		if ok, err := holds(one); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func isPrincipal(p *rbacv3.Principal, a arrival) (bool, error) {
	again := func(p *rbacv3.Principal) (bool, error) { return isPrincipal(p, a) }
	switch is := p.GetIdentifier().(type) {
	case *rbacv3.Principal_AndIds:
		return allOf(is.AndIds.GetIds(), again)
	case *rbacv3.Principal_NotId:
		ok, err := again(is.NotId)
		return !ok, err
	case *rbacv3.Principal_Authenticated_:
		return takesString(is.Authenticated.GetPrincipalName(), a.uri)
	}
	return false, fmt.Errorf("the simulator does not know the principal %T", p.GetIdentifier())
}

func isPermission(p *rbacv3.Permission, a arrival) (bool, error) {
	again := func(p *rbacv3.Permission) (bool, error) { return isPermission(p, a) }
	switch does := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return does.Any, nil
	case *rbacv3.Permission_AndRules:
		return allOf(does.AndRules.GetRules(), again)
	case *rbacv3.Permission_NotRule:
		ok, err := again(does.NotRule)
		return !ok, err
	case *rbacv3.Permission_UrlPath:
		return takesString(does.UrlPath.GetPath(), a.request.path)
	case *rbacv3.Permission_Header:
		return takesHeader(does.Header, *a.request)
	}
	return false, fmt.Errorf("the simulator does not know the permission %T", p.GetRule())
}
