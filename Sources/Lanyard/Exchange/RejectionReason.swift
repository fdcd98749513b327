/// Values of `reason` in `lanyard_rejected_requests_total`: few and fixed, so that the number of its series is bounded.
package enum RejectionReason: String, CaseIterable, Sendable {
    case malformed, expect, timeout, host, origin, forwarded, capability, caller, authorization, denied, method, path,
        limit
}
