import LanyardFoundations

/// The lifetime of an access token that a response brings, by what the response and the token say of its end (refresh.md 1).
enum TokenLifetime {
    /// In seconds, of a token that states none.
    private static let assumed: Int64 = 300
    /// A token with a shorter one is unusable.
    static let minimum: Int64 = 2
    /// Ten years, in seconds. A longer lifetime means "no end" and must not overflow later sums.
    private static let maximum: Int64 = 315_360_000

    /// The lesser of what the response states (`expires_in`) and of what the token states (`exp`): a gateway may give out a token that is
    /// older than its response.
    ///
    /// - Parameters:
    ///   - stated: `expires_in` of the response; nil: none.
    ///   - configured: of a token whose response states none.
    ///   - claims: of the token; nil: it is no JWT.
    ///   - date: `Date` of the same response.
    /// - Returns: seconds; at most `maximum`, perhaps less than `minimum`.
    static func seconds(stated: Int64?, configured: Int64? = nil, claims: JWTClaims?, date: WallTime?) -> Int64 {
        // Some servers write 0 for "not stated". What is configured says it then.
        let stated = (configured != nil && stated.map { $0 <= 0 } == true ? nil : stated) ?? configured
        let claimed = claims?.lifetime(at: date)
        guard let stated else { return min(claimed ?? assumed, maximum) }
        // An end in the past says nothing beside another one.
        return min(stated, claimed.flatMap { $0 < minimum ? nil : $0 } ?? stated, maximum)
    }
}

extension JWTClaims {
    /// `exp − Date`, both by clocks of the service's side; without a `Date` `exp − iat`. This machine's clock has no part in it.
    ///
    /// A `Date` behind `exp` says that one of the two clocks is wrong. Taken for the truth, it would make each token of such a service
    /// unusable, so it counts as missing. Of a token that has really ended the upstream's 401 tells.
    ///
    /// - Returns: seconds; nil: the token states no end, or one that says nothing.
    fileprivate func lifetime(at date: WallTime?) -> Int64? {
        guard let expiry else { return nil }
        if let date {
            let left = expiry.clampedDifference(date.seconds)
            if left >= TokenLifetime.minimum { return left }
        }
        return issuedAt.map { expiry.clampedDifference($0) }
    }
}
