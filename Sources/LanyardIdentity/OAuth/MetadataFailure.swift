import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Why one place has no metadata that can be used.
///
/// Servers and gateways say in many ways that nothing is there: a redirect to a login, a page, an error of their own. So each response but
/// the metadata of the issuer leads to the next place. Metadata of another issuer is an error, and never used.
struct MetadataFailure {
    /// What tells an operator more comes later.
    enum Rank: Int, Comparable {
        /// Nothing is there.
        case missing
        /// A redirect, or a refusal.
        case refused
        /// A success that is no metadata.
        case unreadable
        /// No response, or an error that may pass by itself.
        case failing
        /// Metadata, and not of this issuer, or without an endpoint that can be used.
        case wrong

        static func < (one: Rank, other: Rank) -> Bool { one.rawValue < other.rawValue }
    }

    let error: IdentityError
    let rank: Rank
    /// The next place is asked for, too. Not if the server is not there, which all places have in common, or wants no call for now.
    let leadsOn: Bool

    /// What one place has.
    enum Reading {
        case metadata(OAuthMetadata)
        case failure(MetadataFailure)
    }

    /// The metadata in a response.
    static func read(_ outcome: Result<CurlResponse, CurlError>, _ url: String, _ issuer: String) -> Reading {
        switch outcome {
        case .failure(let failure):
            return .failure(
                MetadataFailure(
                    error: OAuthVerdict.error(.metadata, failure), rank: .failing, leadsOn: failure.kind == .tooLarge))
        case .success(let response):
            var subject = OAuthVerdict.Subject(call: .metadata, profile: .generic)
            subject.url = url
            let leadsOn = response.fields.retryAfter == nil
            if let error = OAuthVerdict.error(subject, response, now: .now) {
                return .failure(MetadataFailure(error: error, rank: rank(of: response.status), leadsOn: leadsOn))
            }
            let read = response.body.withBytes { bytes in
                Result { () throws(OAuthMetadata.MetadataError) in try OAuthMetadata(bytes, issuer: issuer) }
            }
            switch read {
            case .success(let metadata): return .metadata(metadata)
            case .failure(let defect):
                let error = OAuthVerdict.malformed(
                    .metadata, response.status, "\(defect.message) (\(url))", nil, responsible: .operator)
                return .failure(
                    MetadataFailure(
                        error: error.withRetryAfter(of: response), rank: defect.namesIssuer ? .wrong : .unreadable,
                        leadsOn: leadsOn))
            }
        }
    }

    private static func rank(of status: Int) -> Rank {
        switch status {
        case 200..<300: .unreadable
        case 404, 405, 410, 501: .missing
        case 408, 425, 429, 500...: .failing
        default: .refused
        }
    }
}
