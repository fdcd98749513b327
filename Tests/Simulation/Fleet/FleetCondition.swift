import LanyardFoundations
import LanyardSessionInterface

/// How the way to the identity service is for a while, and what becomes of a call under it.
enum FleetCondition: Int, CaseIterable {
    case clear, fair, slow, lossy, down, silent, swallowing, captivePortal, overloaded, failing, gone, noApp, garbling,
        lying
    case doubting
    // Only by a lead: tokens of the shortest life that there is, and responses that come when these have ended.
    case brief, tardy

    /// What comes by itself.
    private static let common = allCases.filter { $0 != .brief && $0 != .tardy }

    /// What becomes of one call. The service carries it out at `reachesIn`, nil: never.
    struct Outcome {
        var reachesIn: Duration?
        var respondsIn: Duration
        /// nil: the service's own response comes through.
        var verdict: IdentityError.Verdict?
        /// What a response says of the refresh token that it was for; nil: nothing is known of it but the verdict.
        var response: RefreshResponse?
        var fault: FleetFault?
        /// How much longer than the service means it the response says that the token lives, 1 being honest.
        var stretch = 1.0
        /// What the response's `Date` is off.
        var dateError = Duration.zero
    }

    /// The condition after a change: fair for most of the time.
    static func next(_ random: inout SplitMix64) -> FleetCondition {
        guard random.hits(0.5) else { return .fair }
        let next = common[random.below(common.count)]
        // Rare, since only an operator ends what follows from it.
        return next == .noApp && random.hits(0.5) ? .clear : next
    }

    /// How long it lasts, in the plan's units.
    func units(_ random: inout SplitMix64) -> Double {
        switch self {
        case .clear, .fair: 2 * random.chance()
        // Seldom long enough for the current tokens to end: then each session asks twice a minute.
        default: (random.hits(0.01) ? 1.2 : 0.03) * random.chance()
        }
    }

    func outcome(isLogin: Bool, _ random: inout SplitMix64) -> Outcome {
        let quick = random.between(.milliseconds(10), .milliseconds(300))
        let fair = Outcome(reachesIn: quick / 2, respondsIn: quick)
        switch self {
        case .clear: return fair
        case .fair: return random.hits(0.98) ? fair : Self.mishap(quick, isLogin: isLogin, &random)
        case .slow:
            let slow = random.between(.seconds(1), .seconds(29))
            return Outcome(reachesIn: slow * random.chance(), respondsIn: slow, fault: .slowResponse)
        case .lossy: return random.hits(0.5) ? fair : Self.mishap(quick, isLogin: isLogin, &random)
        case .down:
            return Outcome(
                respondsIn: .milliseconds(2), verdict: .transient(retryAfter: nil), fault: .connectionRefused)
        case .silent:
            return Outcome(respondsIn: .seconds(5), verdict: .transient(retryAfter: nil), fault: .connectTimedOut)
        case .swallowing: return random.hits(0.3) ? fair : Self.lost(quick, isLogin: isLogin, &random)
        case .captivePortal:
            return Outcome(respondsIn: quick, verdict: .transient(retryAfter: nil), fault: .htmlInstead)
        case .overloaded:
            let after: Duration? = random.hits(0.7) ? random.between(.seconds(1), .seconds(900)) : nil
            // Some services say so in a 200 (refresh-outcomes.md 9).
            if Self.comesInSuccess(quick) {
                return Outcome(
                    respondsIn: quick, verdict: .transient(retryAfter: after), response: Self.errorInSuccess,
                    fault: .errorInSuccess)
            }
            let fault = after == nil ? FleetFault.tooManyRequests : .retryAfter
            return Outcome(respondsIn: quick, verdict: .transient(retryAfter: after), fault: fault)
        case .failing:
            return Outcome(respondsIn: quick, verdict: .transient(retryAfter: nil), fault: .serverError)
        case .gone: return Outcome(respondsIn: quick, verdict: .gone, fault: .gone)
        case .noApp: return Outcome(respondsIn: quick, verdict: .unknownApp, fault: .unknownApp)
        case .garbling:
            guard random.hits(0.7) else { return fair }
            // A gateway's doing, or the service's own.
            let isCarriedOut = random.hits(0.3)
            if isCarriedOut, Self.comesInSuccess(quick) {
                return Outcome(
                    reachesIn: quick / 2, respondsIn: quick, verdict: .transient(retryAfter: nil),
                    response: Self.errorInSuccess, fault: .errorInSuccessAfterRotation)
            }
            return Outcome(
                reachesIn: isCarriedOut ? quick / 2 : nil, respondsIn: quick, verdict: .transient(retryAfter: nil),
                fault: isCarriedOut ? .malformedAfterRotation : .malformedSuccess)
        case .lying: return Self.lie(quick, &random)
        case .brief: return Outcome(reachesIn: quick / 2, respondsIn: quick, fault: .wrongLifetime, stretch: 0)
        case .tardy:
            let slow = random.between(.seconds(3), .seconds(29))
            return Outcome(reachesIn: quick / 2, respondsIn: slow, fault: .slowResponse, stretch: 0)
        case .doubting:
            guard isLogin else { return fair }
            return Outcome(respondsIn: quick, verdict: .credentialDoubted, fault: .doubtfulRefusal)
        }
    }

    /// A named error in a response of success. It says that no successor was made, which no client can check.
    private static let errorInSuccess = RefreshResponse(status: 200, error: .named)

    /// Half of such responses. It is no draw of its own: the seeds of `FleetRegression` count on those that there are.
    private static func comesInSuccess(_ duration: Duration) -> Bool { duration.nanoseconds % 2 == 1 }

    /// No response: the request was lost, or carried out now, or long after the caller gave up.
    private static func lost(_ quick: Duration, isLogin: Bool, _ random: inout SplitMix64) -> Outcome {
        // What was sent and not answered is unknown for a refresh; a login is simply made again.
        let verdict: IdentityError.Verdict = isLogin ? .transient(retryAfter: nil) : .unknownOutcome
        let respondsIn = random.hits(0.5) ? Duration.seconds(30) : random.between(quick, .seconds(30))
        switch random.below(4) {
        case 0: return Outcome(respondsIn: respondsIn, verdict: verdict, fault: .requestLost)
        case 1:
            let late = respondsIn + random.between(.zero, .seconds(20))
            return Outcome(reachesIn: late, respondsIn: respondsIn, verdict: verdict, fault: .carriedOutAfterTimeout)
        default: return Outcome(reachesIn: quick / 2, respondsIn: respondsIn, verdict: verdict, fault: .responseLost)
        }
    }

    private static func mishap(_ quick: Duration, isLogin: Bool, _ random: inout SplitMix64) -> Outcome {
        switch random.below(10) {
        case 0:
            return Outcome(
                respondsIn: .milliseconds(2), verdict: .transient(retryAfter: nil), fault: .connectionRefused)
        case 1: return Outcome(respondsIn: quick, verdict: .transient(retryAfter: nil), fault: .serverError)
        case 2: return Outcome(respondsIn: quick, verdict: .transient(retryAfter: nil), fault: .htmlInstead)
        case 3: return Outcome(respondsIn: quick, verdict: .transient(retryAfter: .seconds(20)), fault: .retryAfter)
        case 4: return lie(quick, &random)
        case 5:
            let slow = random.between(.seconds(1), .seconds(29))
            return Outcome(reachesIn: slow / 2, respondsIn: slow, fault: .slowResponse)
        default: return lost(quick, isLogin: isLogin, &random)
        }
    }

    /// Lifetimes by mistake, and a clock of its own.
    private static func lie(_ quick: Duration, _ random: inout SplitMix64) -> Outcome {
        switch random.below(4) {
        case 0:
            // Under 2 s: the reader of responses takes that for a malformed success.
            return Outcome(
                reachesIn: quick / 2, respondsIn: quick, verdict: .transient(retryAfter: nil), fault: .shortLifetime)
        case 1:
            let error = random.between(.seconds(-300), .seconds(300))
            return Outcome(reachesIn: quick / 2, respondsIn: quick, fault: .wrongDate, dateError: error)
        default:
            return Outcome(
                reachesIn: quick / 2, respondsIn: quick, fault: .wrongLifetime, stretch: 0.1 + 3 * random.chance())
        }
    }
}
