//! Decides which stripes to relay, from the client's own waiting times and the number of other
//! writing clients.
//!
//! Relaying spares the client's link and spends those of nodes. As long as nodes keep up, the
//! client's link is the bottleneck, and relaying is right. Otherwise the client waits for nodes:
//! for credit, when their rings are full, or for answers, when it has sent as many stripes as
//! allowed. If many clients write, it then sends some stripes directly ([`Crowd`]). If clients are
//! so few that relaying everything should be best, a node is slow, and the client relays all
//! stripes or none ([`Alone`]).

use tabane_parity::Layout;
use tabane_parity::schedule::Kind;

/// The mixer of one client.
#[derive(Default)]
pub struct Mixer {
    /// Known number of writing clients.
    clients: u16,
    crowd: Crowd,
    alone: Alone,
}

impl Mixer {
    /// Chooses the plan for the next stripe.
    pub fn choose(&mut self) -> Kind {
        let is_relayed = if self.crowd.is_one() {
            self.crowd.choose()
        } else {
            self.alone.relays
        };
        if is_relayed {
            Kind::Coded
        } else {
            Kind::Direct
        }
    }

    /// Learns the number of writing clients.
    pub fn share_among(&mut self, clients: u16, layout: &Layout) {
        if self.clients != clients {
            self.clients = clients;
            self.crowd = Crowd::new(best_share(clients, layout));
            self.alone = Alone::new(layout);
        }
    }

    /// Learns from a stripe: `waited`, the mean share of its time spent waiting for nodes, and
    /// `pace`, its seconds a byte.
    pub fn learn(&mut self, waited: f64, pace: f64) {
        if self.crowd.is_one() {
            self.crowd.learn(waited)
        } else {
            self.alone.learn(waited, pace)
        }
    }
}

/// Decides the share of stripes to relay when many clients write.
///
/// Nodes tell the number of writing clients, and each client begins with the share that would be
/// best if all links and clients were equal. The share falls while a client waits long for nodes,
/// and rises above the best only while it hardly waits, which shows that clients have slower links
/// than nodes.
struct Crowd {
    /// Share of stripes that are relayed.
    share: f64,
    /// The best share among equals, with which it began.
    best: f64,
    /// Relayed stripes that are due.
    due: f64,
    /// Share of the time of recent stripes that went into waiting for nodes.
    waited: f64,
}

impl Default for Crowd {
    fn default() -> Self {
        Self::new(1.0)
    }
}

impl Crowd {
    /// Share of time spent waiting for nodes that is aimed at.
    const WAITED_SHARE: f64 = 0.2;
    /// The same while the share is above the best one among equals.
    const WAITED_SHARE_ABOVE: f64 = 0.03;
    /// Cap on the waiting share of a stripe: a hiccup of the network now and then stalls a whole
    /// stripe.
    const WAITED_SHARE_MAX: f64 = 0.5;
    /// Stripes over which waiting is averaged.
    const AVERAGED_STRIPES: f64 = 3.0;
    /// The most that a share rises after a stripe: up to the best share, and above it.
    const STEP_UP_MAX: f64 = 0.08;
    const STEP_UP_ABOVE_MAX: f64 = 0.02;
    /// The most that a share falls after a stripe: as a part of the share, and of its excess over
    /// the best.
    const STEP_DOWN_MAX: f64 = 0.1;
    const STEP_DOWN_ABOVE_MAX: f64 = 0.5;
    /// A share this close to the best counts as the best; halving the distance would never end.
    const EXCESS_SHARE_MIN: f64 = 0.001;

    fn new(best: f64) -> Self {
        let best = best.clamp(0.0, 1.0);
        Self {
            share: best,
            best,
            due: 0.0,
            waited: 0.0,
        }
    }

    /// Whether clients are so many that relaying all stripes would not be best.
    fn is_one(&self) -> bool {
        self.best < 1.0
    }

    fn choose(&mut self) -> bool {
        self.due += self.share;
        let is_relayed = self.due >= 1.0;
        if is_relayed {
            self.due -= 1.0;
        }
        is_relayed
    }

    fn learn(&mut self, waited: f64) {
        self.waited += (waited.min(Self::WAITED_SHARE_MAX) - self.waited) / Self::AVERAGED_STRIPES;
        let (above, room_above) = (self.share - self.best, self.room(Self::WAITED_SHARE_ABOVE));
        let room = self.room(Self::WAITED_SHARE);
        self.share = if above >= 0.0 && room_above > 0.0 {
            (self.share + Self::STEP_UP_ABOVE_MAX * room_above).min(1.0)
        } else if above > Self::EXCESS_SHARE_MIN {
            self.best + above * Self::STEP_DOWN_ABOVE_MAX
        } else if room > 0.0 {
            (self.share + Self::STEP_UP_MAX * room).min(self.best)
        } else {
            self.share * (1.0 + Self::STEP_DOWN_MAX * room.max(-1.0))
        };
    }

    /// 1 without any waiting, 0 at a share `waited` of waiting time, and negative above it.
    fn room(&self, waited: f64) -> f64 {
        1.0 - self.waited / waited
    }
}

/// Chooses to relay everything or nothing, for layouts in which the client's link is the bottleneck
/// unless a node is slow.
///
/// Waiting time hints that the other way may be quicker, but proves nothing: earlier bytes may
/// still be on the link. So the client tries the other way and keeps the quicker one. After each
/// trial that did not pay off, twice as many stripes go by before the next.
struct Alone {
    /// Whether stripes are relayed now.
    relays: bool,
    /// Whether the current way is on trial.
    is_trial: bool,
    /// Stripes sent in the current way.
    stripes: u32,
    /// Stripes before the next trial of the other way.
    pause: u32,
    /// Recent seconds a byte: of stripes sent directly, and of relayed ones.
    pace: [f64; 2],
    /// Share of the time of recent relayed stripes that went into waiting for nodes.
    waited: f64,
    /// Relaying pays off below this share of waiting time.
    worth: f64,
}

impl Default for Alone {
    fn default() -> Self {
        Self {
            relays: true,
            is_trial: false,
            stripes: 0,
            pause: Self::TRIAL_PAUSE_STRIPES,
            pace: [0.0; 2],
            waited: 0.0,
            worth: Self::URGENT_WAITED_SHARE,
        }
    }
}

impl Alone {
    /// First stripes of a trial, which do not count: they wait for stripes sent before the trial.
    const SETTLING_STRIPES: u32 = 3;
    /// Stripes that are measured in a trial.
    const TRIAL_STRIPES: u32 = 3;
    /// Stripes over which paces are averaged.
    const AVERAGED_STRIPES: f64 = 3.0;
    /// Share of waiting time above which the other way is tried at once.
    const URGENT_WAITED_SHARE: f64 = 0.6;
    /// A trial ends at once when a stripe takes this many times as long as in the other way.
    const HOPELESS_TIME_RATIO: f64 = 3.0;
    /// Stripes before the first trial, and the most from one trial to the next.
    const TRIAL_PAUSE_STRIPES: u32 = 64;
    const TRIAL_PAUSE_STRIPES_MAX: u32 = 2048;

    fn new(layout: &Layout) -> Self {
        Self {
            worth: 2.0 / layout.roles() as f64,
            ..Self::default()
        }
    }

    fn learn(&mut self, waited: f64, pace: f64) {
        let (this, other) = (usize::from(self.relays), usize::from(!self.relays));
        self.stripes += 1;
        let weight = match self.stripes {
            0..=Self::SETTLING_STRIPES => 1.0,
            _ => 1.0 / Self::AVERAGED_STRIPES,
        };
        self.pace[this] += (pace - self.pace[this]) * weight;
        if self.relays {
            self.waited += (waited - self.waited) / Self::AVERAGED_STRIPES;
        }
        if self.is_trial {
            let is_hopeless = pace > Self::HOPELESS_TIME_RATIO * self.pace[other];
            if is_hopeless || self.stripes >= Self::SETTLING_STRIPES + Self::TRIAL_STRIPES {
                self.is_trial = false;
                self.pause = if self.pace[this] < self.pace[other] {
                    Self::TRIAL_PAUSE_STRIPES
                } else {
                    (2 * self.pause).min(Self::TRIAL_PAUSE_STRIPES_MAX)
                };
                if self.pace[this] >= self.pace[other] {
                    self.turn();
                }
            }
            return;
        }
        let is_urgent =
            self.waited > Self::URGENT_WAITED_SHARE && self.pause == Self::TRIAL_PAUSE_STRIPES;
        let is_due = if self.relays {
            self.waited > self.worth && (is_urgent || self.stripes >= self.pause)
        } else {
            self.stripes >= self.pause
        };
        if is_due && self.stripes > Self::SETTLING_STRIPES {
            self.turn();
            self.is_trial = true;
        }
    }

    fn turn(&mut self) {
        self.relays = !self.relays;
        (self.stripes, self.waited) = (0, 0.0);
    }
}

/// Relaying nodes wait for one another and do not fill their links: a stripe takes this many times
/// as long as the links would need. Measured with five to nine nodes: 1.1 to 1.25.
const RELAYING_TIME_RATIO: f64 = 1.2;

/// The share of relayed stripes at which equal links of clients and nodes are equally busy; below 0
/// or above 1 if no share achieves this.
///
/// Per byte of data, a client sends all cells of a stripe that it does not relay; a relayed stripe
/// costs every node more.
fn best_share(clients: u16, layout: &Layout) -> f64 {
    let ingress = |kind: Kind| {
        let schedule = kind.schedule(layout)?;
        Some(schedule.costs(layout).rotating_ingress())
    };
    let relayed = ingress(Kind::Coded).or_else(|| ingress(Kind::Shared));
    let (Some(direct), Some(relayed)) = (ingress(Kind::Direct), relayed) else {
        return 1.0;
    };
    let (sent, clients) = (direct * layout.roles() as f64, f64::from(clients));
    let share = |slower: f64| {
        (sent - clients * direct) / (sent - 1.0 + clients * (slower * relayed - direct))
    };
    match share(1.0) {
        all if all >= 1.0 => all,
        _ => share(RELAYING_TIME_RATIO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clients_relay_all_and_many_nothing() {
        for roles in 4..=12 {
            let layout = Layout::new(roles).unwrap();
            let mut before = f64::INFINITY;
            for clients in 1..=40 {
                let share = best_share(clients, &layout);
                assert!(share < before, "{roles} {clients}");
                before = share;
            }
            assert!(best_share(1, &layout) >= 1.0 && before <= 0.0);
        }
        // By hand: 12 data cells of 20; 1/3 and 29/60 of the data are received by a node: (5/3 - 1)
        // / (2/3 + 3 * (1.2 * 29/60 - 1/3)).
        let three = best_share(3, &Layout::new(5).unwrap());
        assert!((0.45..0.55).contains(&three), "{three}");
    }

    #[test]
    fn many_relay_what_is_best_among_equals_unless_they_differ() {
        let mut mixer = Mixer::default();
        mixer.share_among(4, &Layout::new(9).unwrap());
        let share = |mixer: &mut Mixer, stripes: u32, waited: f64| {
            let of = (0..stripes).filter(|_| {
                mixer.learn(waited, 1.0);
                mixer.choose() == Kind::Coded
            });
            of.count() as f64 / f64::from(stripes)
        };
        let best = best_share(4, &Layout::new(9).unwrap());
        assert!((share(&mut mixer, 200, 0.1) - best).abs() < 0.03);
        // The first stripes of all at once wait for long.
        share(&mut mixer, 4, 0.4);
        assert!((share(&mut mixer, 40, 0.1) - best).abs() < 0.1);
        // Nodes had some room, and are slow then; then clients are.
        share(&mut mixer, 10, 0.0);
        assert!(share(&mut mixer, 30, 0.5) < 0.5 * best);
        share(&mut mixer, 50, 0.5);
        assert!(share(&mut mixer, 100, 0.5) < 0.05);
        share(&mut mixer, 50, 0.0);
        assert!(share(&mut mixer, 100, 0.0) > 0.95);
    }

    /// Number of relayed stripes among `stripes`, if relayed ones wait and take this long; direct
    /// ones take 1.67.
    fn relayed(mixer: &mut Mixer, stripes: u32, waited: f64, pace: f64) -> usize {
        let of = (0..stripes).filter(|_| {
            let is_relayed = mixer.choose() == Kind::Coded;
            if is_relayed {
                mixer.learn(waited, pace)
            } else {
                mixer.learn(0.0, 1.67)
            }
            is_relayed
        });
        of.count()
    }

    #[test]
    fn one_client_relays_unless_a_node_is_slow() {
        let mut mixer = Mixer::default();
        mixer.share_among(1, &Layout::new(5).unwrap());
        assert_eq!(relayed(&mut mixer, 500, 0.2, 1.0), 500);
        // Relaying waits for nodes, and is quicker all the same.
        assert!(relayed(&mut mixer, 1000, 0.45, 1.0) > 960);

        let mut mixer = Mixer::default();
        mixer.share_among(1, &Layout::new(5).unwrap());
        let first = relayed(&mut mixer, 100, 0.9, 10.0);
        assert!((3..=12).contains(&first), "{first}");
        assert!(relayed(&mut mixer, 5000, 0.9, 10.0) <= 20);
        // Relaying is quick again.
        assert!(relayed(&mut mixer, 5000, 0.1, 1.0) >= 2500);
    }
}
