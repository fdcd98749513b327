/// Values of `reason` in `lanyard_rejected_requests_total` (architecture.md 7.2).
package enum RejectionReason: String, CaseIterable, Sendable {
    case malformed, expect, timeout, host, origin, forwarded, capability, caller, authorization, denied, method, path,
        limit
}
