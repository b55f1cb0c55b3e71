package chain

// The codes of the problems that [Validate] finds. docs/codes.md says what to do about each; a code
// is never given another meaning.
const (
	CodeNoName         = "CAT1001"
	CodeNameNotAllowed = "CAT1002"
	CodeMeta           = "CAT1003"
	CodeEnterprise     = "CAT1004"
	CodeNoEffect       = "CAT1005"
	CodeUnknownValue   = "CAT1006"
	CodeExtension      = "CAT1007"

	CodePathForms       = "CAT1101"
	CodePathSlash       = "CAT1102"
	CodeMatchName       = "CAT1103"
	CodeMatchForms      = "CAT1104"
	CodeMethod          = "CAT1105"
	CodeMethodRepeated  = "CAT1106"
	CodePrefixRewrite   = "CAT1107"
	CodeRetryOn         = "CAT1108"
	CodeRegexNotCompile = "CAT1109"

	CodeNoSplits         = "CAT1201"
	CodeWeightSum        = "CAT1202"
	CodeLegRepeated      = "CAT1203"
	CodeLegRepeatedAlike = "CAT1204"
	CodeWeightOutOfSpan  = "CAT1205"

	CodeSubsetName       = "CAT1301"
	CodeFilter           = "CAT1302"
	CodeUnknownSubset    = "CAT1303"
	CodeRedirectFailover = "CAT1304"
	CodeRedirectEmpty    = "CAT1305"
	CodeRedirectService  = "CAT1306"
	CodePeerCombined     = "CAT1307"
	CodeFailoverKey      = "CAT1308"
	CodeFailoverEmpty    = "CAT1309"
	CodeFailoverForms    = "CAT1310"
	CodeDatacenterEmpty  = "CAT1311"
	CodeNegativeTimeout  = "CAT1312"
	CodeBalancerPolicy   = "CAT1313"
	CodeBalancerConfig   = "CAT1314"
	CodeHashPolicy       = "CAT1315"

	CodeProtocol            = "CAT1401"
	CodeDestinationUpstream = "CAT1402"
	CodeDestination         = "CAT1403"
	CodeUpstreamName        = "CAT1404"
	CodeUpstreamLimit       = "CAT1405"

	CodeConfigProtocol = "CAT1501"
	CodeAccessLogs     = "CAT1502"
	CodeFailoverMode   = "CAT1503"
)
