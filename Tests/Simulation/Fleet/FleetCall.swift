import LanyardSessionInterface

/// One call on its way: from a session to the service and back.
struct FleetCall {
    var process: Int
    var life: Int
    var user: Int
    /// nil: a revocation, whose response no session waits for.
    var call: SessionCall?
    /// nil: a login.
    var token: SimulatedToken?
    /// Which password the login brings.
    var password = 0
    var fate: FleetWeather.Fate
    /// What the service said, once it was reached.
    var response: FleetService.Response?
    /// How often it is still to be heard of.
    var eventsToCome = 0
}
