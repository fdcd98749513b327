/// A world that has shown a mistake of the program's: run again by every run, first of all.
///
/// A seed means another world when the simulation draws otherwise or the program decides otherwise: each mistake has a
/// test of its own beside. But for the one that says so, these are worlds in which no operator
/// changes an account, without variants.
package struct FleetRegression: Sendable, CustomStringConvertible {
    package var plan: FleetPlan
    /// What was wrong.
    package var description: String

    private init(_ seed: UInt64, _ lifetime: Duration, _ span: Duration, _ description: String) {
        plan = FleetPlan(
            seed: seed, lifetime: lifetime, span: span, changesAccounts: false, hasVariants: false, triesLast: false)
        self.description = description
    }

    /// A guided world, of a day at the most.
    private init(guided seed: UInt64, _ lifetime: Duration, hours: Double = 24, _ description: String) {
        plan = FleetPlan(
            seed: seed, lifetime: lifetime, span: .seconds(hours * 3600), isGuided: true, changesAccounts: false,
            hasVariants: false, triesLast: false)
        self.description = description
    }

    /// A world as its seed has it, with variants.
    private init(variants seed: UInt64, _ lifetime: Duration, _ span: Duration, _ description: String) {
        plan = FleetPlan(seed: seed, lifetime: lifetime, span: span, hasVariants: true)
        self.description = description
    }

    package static let all = [
        FleetRegression(
            guided: 22, .seconds(1800),
            "an operator's login that failed left a refresh token in use whose session another process had found dead"),
        FleetRegression(
            7, .seconds(20), .seconds(108_000),
            "a process that began within another's call took its intent for an open one, although its answer came and was stored"
        ),
        FleetRegression(
            6, .seconds(20), .seconds(108_000),
            "a session that the store took late forgot the call that had been made meanwhile: its token was sent twice"),
        FleetRegression(
            15, .seconds(2), .seconds(10_800),
            "a folder that could not be synchronized kept a process from seeing the token that another had stored: it sent the old one"
        ),
        FleetRegression(
            14, .seconds(2), .seconds(10_800),
            "a session that the store took late, two tokens ahead of it, gave way to the one token that another process had stored"
        ),
        FleetRegression(
            7, .seconds(1800), .seconds(6_480_000),
            "a process that had refused a credential never learned of an operator's login in another"),
        FleetRegression(
            291, .seconds(86_400), .seconds(86_400) * 365,
            "the same, although an operator logged in just when the credential was refused there"),
        FleetRegression(
            157, .seconds(86_400), .seconds(86_400) * 365,
            "a login under way in one process undid the logout of a user without a session in another"),
        FleetRegression(
            guided: 24, .seconds(1800),
            """
            a logout while an intent was being stored gave the user's lock back too soon: another process found an \
            intent that was never sent
            """
        ),
        FleetRegression(
            2, .seconds(2), .seconds(10_800),
            """
            a process that took over another's session held its refresh for repeated, for an intent of its own of \
            long before, and ended it
            """
        ),
        FleetRegression(
            guided: 11, .seconds(1800), "a login that the store could not take undid a logout in another process"),
        FleetRegression(
            guided: 88, .seconds(1800),
            "an operator's refresh of a session that was taken over, which failed, lifted the service's Retry-After"),
        FleetRegression(
            guided: 2, .seconds(2), hours: 6,
            "a refresh token that had been sent without an answer was stored late, when its session had ended"),
        FleetRegression(
            variants: 73, .seconds(86_400), .seconds(86_400) * 365,
            "a login that the store could not take made it forget the logout before it, which it had not taken either"),
    ]
}
