import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Times of a store that another program has written, and of services: any of 64 bits. A session of them is made or withheld; nothing ends
/// the process.
@Suite("Sessions: foreign times") struct ForeignTimeTests {
    @Test(
        "a stored token of any time, age and lifetime: it never serves beyond its lifetime, and its renewal has a time")
    func stored() {
        let settings = RefreshSettings()
        var refreshTokens = RefreshTokenSettings(.oneUse)
        refreshTokens.idle = .seconds(60)
        let now = EventContext(
            instant: Instant(nanoseconds: 5_000_000_000), wall: WallTime(seconds: 1_700_000_000), chance: 0.5)
        for issuedAt in ForeignNumbers.integers {
            for boot in ["boot", "other"] {
                for instant in ForeignNumbers.integers {
                    for lifetime in ForeignNumbers.integers {
                        let token = StoredAccessToken(
                            Tokens.secret("access"), issuedAt: WallTime(nanoseconds: issuedAt),
                            issuedAtBoot: BootInstant(boot: boot, instant: Instant(nanoseconds: instant)),
                            lifetime: .nanoseconds(lifetime))
                        let tokens = SessionTokens(
                            token, (Tokens.secret("refresh"), WallTime(nanoseconds: instant)), generation: 1,
                            accountID: nil, account: .none, boot: "boot", at: now, skew: .nanoseconds(issuedAt),
                            settings: settings, refreshTokens: refreshTokens)
                        if lifetime <= 0 { #expect(!tokens.isUsable(at: now.instant), "\(lifetime)") }
                        _ = tokens.refreshAt(settings, now, spread: 0.1)
                        _ = tokens.isSame(as: token)
                    }
                }
            }
        }
    }

    @Test("a Retry-After of any length is honoured as far as it is allowed")
    func retryAfter() throws {
        for seconds in ForeignNumbers.integers where seconds >= 0 {
            let driver = SessionDriver()
            driver.handle(.logIn)
            try driver.fail(.transient(retryAfter: .seconds(seconds)))
            let wait = driver.session.nextCallAt - driver.now
            #expect(wait >= .zero && wait <= .seconds(300), "\(seconds)")
        }
    }

    @Test("the last generation has no next one")
    func generation() {
        #expect(Generation(.max).next == Generation(.max) && Generation(.max).next(atLeast: 1) == Generation(.max))
    }
}
