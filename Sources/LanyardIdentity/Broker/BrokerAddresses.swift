import LanyardFoundations
import LanyardSettings

/// Which of another Lanyard's addresses are tried, and in which order (fleet.md 2). It decides; `BrokerIdentity` calls.
struct BrokerAddresses {
    typealias Address = IdentitySettings.OtherLanyard.Address

    /// How long calls begin with another address than the first one before they try that again.
    static let firstAgainAfter = Duration.seconds(60)

    private let all: [Address]
    /// The place of the address that has responded last.
    private var present = 0
    /// When calls begin with the first address again; without a meaning while that is the present one.
    private var firstAgainAt = Instant.past

    init(_ all: [Address]) { self.all = all }

    /// The addresses for a call that begins now: from the present one on, each once.
    func order(at now: Instant) -> [Address] {
        let first = now < firstAgainAt ? present : 0
        return Array(all[first...] + all[..<first])
    }

    /// The address has responded with what is no reason to try another one.
    mutating func recordResponse(of address: Address, at now: Instant) {
        guard let place = all.firstIndex(of: address) else { return }
        if place != present || now >= firstAgainAt { firstAgainAt = now + Self.firstAgainAfter }
        present = place
    }
}

/// The latest tokens that another Lanyard has given, with what is known of them there. So a token that an upstream has refused is named by
/// its generation, and is not taken for a newer one when it comes again. It lives as long as its identity: after a restart the generation
/// is learned from the next response.
struct BrokerTokens {
    /// The user there, and what was asked for.
    struct Key: Hashable {
        let user: String
        let variant: TokenVariant
    }

    private struct Known {
        let token: Secret
        /// nil: not known since the start.
        var generation: UInt64?
        var isRefused = false
    }

    private var latest: [Key: Known] = [:]

    /// An upstream has refused the token.
    mutating func noteRefusal(of token: Secret, _ key: Key) {
        if latest[key]?.token == token {
            latest[key]?.isRefused = true
        } else {
            latest[key] = Known(token: token, generation: nil, isRefused: true)
        }
    }

    /// The generation of the refused token that the other Lanyard is to be told of; nil: none is refused, or it is not known.
    func refusedGeneration(_ key: Key) -> UInt64? {
        latest[key].flatMap { $0.isRefused ? $0.generation : nil }
    }

    /// A token has come.
    ///
    /// - Returns: false: it is the one that was refused.
    mutating func accept(_ token: Secret, generation: UInt64, _ key: Key) -> Bool {
        if latest[key]?.isRefused == true, latest[key]?.token == token {
            latest[key]?.generation = generation
            return false
        }
        latest[key] = Known(token: token, generation: generation)
        return true
    }
}
