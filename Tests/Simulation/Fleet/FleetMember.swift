import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What is true of one user, whatever the processes believe: what the checks compare them with.
struct FleetMember {
    /// A content of the credential's file is not to be sent again.
    struct CredentialRecord {
        var password: Int
        /// It has served its only login; false: it was refused, and an operator's login makes that forgotten.
        var isSpent: Bool
    }

    /// What follows from a login for the one content that the store remembers.
    enum CredentialOutcome {
        case recorded(CredentialRecord)
        /// The content has served, and Lanyard does not know that it works once. A login makes a refusal of an earlier
        /// content forgotten: the file may hold that content again.
        case forgotten
    }

    let name: String
    let hasCredential: Bool
    /// The service gives the user refresh tokens.
    let hasRefreshToken: Bool
    let variants: [FleetVariant.Plan]
    /// Each content of the credential's file works for one login.
    let isOneUse: Bool
    /// The credential of the configuration; all kinds behave alike.
    let login: UserSettings.Login
    /// The content of the credential's file, by number.
    var password = 1
    /// What the store knows of a content of the file.
    var recorded: CredentialRecord?
    /// When the service deleted the account on Lanyard's behalf; nil: it has not, or a login was asked for since.
    var deletedAt: Instant?
    /// When a login with an operator's credential was last sent.
    var givenAt = Instant.past
    /// An operator has logged the user out, and no login was asked for since.
    var isLoggedOut = false
    /// What an operator has asked for last, stored or not.
    var wantsOut = false
    /// When the store took the latest login, and the latest logout.
    var loggedInAt = Instant.past
    var loggedOutAt = Instant.past
    /// The refresh token that was sent last, and how many of its calls have had no response.
    var sent: SimulatedToken?
    var unknownOutcomes = 0
    /// The refresh token that had its last try.
    var triedLast: SimulatedToken?
    /// The refresh token that was sent while the disk had its mark, and by which process of which life.
    var marked: (token: SimulatedToken, process: Int, life: Int)?
    /// The wall clock at the first of them.
    var unknownSince = WallTime(seconds: 0)
    /// Answers that a process which has just died had heard and not stored.
    var unsettled = 0
    /// Something that no client can know or help has made an old token of the one that the client holds: the service
    /// kept the new one to itself behind a response that says otherwise, or a process died whose disk took nothing.
    var isExcused = false
    /// Since when; requests that were sent before may arrive a minute later.
    var excusedAt = Instant.past
    /// The service has refused this user's login, or said that there is no such application, since the last success.
    var wasRefused = false
    /// How far the user had come, and when, when a refusal was stored that left nothing of the session: what is no
    /// newer is not to be served.
    var refusal: (generation: Generation, at: Instant)?
    /// The service has said that the session is dead.
    var wasDeclaredDead = false
    /// A process has died since the last token came: it may have got a response that it could not store.
    var isUnsettled = false
    /// What the storm is measured by.
    var hour: Int64 = 0
    var callsInHour = 0
    var startsInHour = 0
    var shortestLife = Duration.seconds(Int64.max >> 40)

    init(place: Int, _ plan: FleetPlan.Member) {
        name = "user\(place)"
        hasCredential = plan.hasCredential
        hasRefreshToken = plan.hasRefreshToken
        isOneUse = plan.isOneUse
        variants = plan.variants
        let kinds: [UserSettings.Login] = [
            .emailPassword(email: name, password: name), .jwt(name), .function(payload: name),
            .apiKey(name),
        ]
        let oneUse: [UserSettings.Login] = [
            .googleAuthCode(name), .jwt(name), .function(payload: name),
        ]
        login = isOneUse ? oneUse[place % oneUse.count] : kinds[place % kinds.count]
    }

    /// Lanyard knows that a content of the file works once. Of other kinds it learns that by the refusal.
    var isKnownOneUse: Bool { isOneUse && login.kind == .googleAuthCode }
}
