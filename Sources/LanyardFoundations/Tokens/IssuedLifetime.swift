/// For how long an access token that is given to another program may be used there. Pure.
///
/// The other program's clock and its network take some of the rest. So a token is not given out shortly before its end, and the rest that
/// the program is told is shorter than the real one.
package enum IssuedLifetime {
    /// A token with less rest is not given out: 3 s, of a life under 12 s a quarter.
    ///
    /// - Parameter lifetime: the whole life of the token.
    package static func restMin(lifetime: Duration) -> Duration { min(.seconds(3), lifetime / 4) }

    /// The value of `expires_in`: the rest without its tenth, 5 s at most, in whole seconds. At least 2: clients take a lower number for an
    /// ended token, and would ask again at once.
    package static func seconds(rest: Duration) -> Int {
        let told = rest - min(.seconds(5), rest / 10)
        return max(2, Int(clamping: told.components.seconds))
    }
}
