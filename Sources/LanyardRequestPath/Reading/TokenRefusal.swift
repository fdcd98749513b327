/// What the `WWW-Authenticate` fields of a response state about the bearer token of the request (RFC 6750 §3.1).
package enum TokenRefusal: Sendable, CaseIterable {
    /// The token was refused as expired or invalid, or without a reason: the status decides. Also if the fields cannot
    /// be read.
    case token
    /// The token is valid but its scope is too small. Another one of the same session would have the same scope.
    case insufficientScope
    /// The request itself is invalid.
    case invalidRequest

    /// Reads all fields of that name. Only challenges of Bearer and DPoP (RFC 9449 §7.1) count: they have RFC 6750's
    /// `error`.
    ///
    /// If they differ, `insufficient_scope` takes precedence, then `invalid_token`: a refresh without effect is worse
    /// than none.
    package init(_ table: FieldTable, in head: Bytes) {
        self = .token
        var findings = Findings()
        var isContinued = false
        for index in 0..<table.count where table[index].name == .wwwAuthenticate {
            // A field that cannot be read is ignored, and the next field does not continue it.
            var attempt = findings
            isContinued = attempt.add(table.value(index, in: head), continued: isContinued)
            if isContinued { findings = attempt }
        }
        if findings.hasInsufficientScope {
            self = .insufficientScope
        } else if findings.hasInvalidRequest, !findings.hasInvalidToken {
            self = .invalidRequest
        }
    }

    /// The findings of the fields so far.
    private struct Findings {
        var hasInsufficientScope = false
        var hasInvalidToken = false
        var hasInvalidRequest = false
        /// The current challenge is of a scheme with an `error` that counts.
        private var isBearer = false
        private var hasError = false

        /// False if the value cannot be read.
        mutating func add(_ value: Bytes, continued: Bool) -> Bool {
            var reader = ChallengeReader(value, continued: continued)
            if !continued { isBearer = false }
            do throws(HeadError) {
                while let element = try reader.next() {
                    guard record(element) else { return false }
                }
                return true
            } catch {
                return false
            }
        }

        /// False for a second `error` in one challenge (RFC 9110 §11.2): two readers would use different ones.
        private mutating func record(_ element: ChallengeReader.Element) -> Bool {
            switch element {
            case .scheme(let name):
                isBearer = name.equals(lowered: "bearer") || name.equals(lowered: "dpop")
                hasError = false
            case .token68: break
            case .parameter(let name, let value):
                guard isBearer, name.equals(lowered: "error") else { break }
                guard !hasError else { return false }
                hasError = true
                if value.equals(lowered: "insufficient_scope") { hasInsufficientScope = true }
                if value.equals(lowered: "invalid_token") { hasInvalidToken = true }
                if value.equals(lowered: "invalid_request") { hasInvalidRequest = true }
            }
            return true
        }
    }
}
