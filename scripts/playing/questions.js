// Questions, each with the settings that answer it, and the answer.
const QUESTIONS = [
  {
    ask: "What can happen?",
    set: { game: "bilinear", strategies: ["joint", "detach", "extragradient", "lookahead"], rate: 0.2, momentum: 0, steps: "1:1", length: 120, speed: 20 },
    say: "One game, one start, one learning rate, and three fates: joint (simultaneous descent) spirals out, detach (taking turns) goes round for ever, extragradient and lookahead come in. What differs is only who moves when, and where the gradient is read. The next questions take them one by one.",
  },
  {
    ask: "Why does simultaneous descent spiral out?",
    set: { game: "bilinear", strategies: ["joint"], rate: 0.3, momentum: 0, steps: "1:1", length: 60, speed: 3 },
    say: "Both networks step from the same point, along the arrow there. The arrow is a tangent of the circle around the solution, and whoever walks straight on along a tangent leaves the circle: every step multiplies the distance by √(1 + η²), whatever the learning rate. A smaller η only makes it slower.",
  },
  {
    ask: "What changes if they take turns?",
    set: { game: "bilinear", strategies: ["joint", "detach"], rate: 0.3, momentum: 0, steps: "1:1", length: 100, speed: 3 },
    say: "With detach, D moves first, straight up or down, and G answers to the D that has already moved, straight left or right. Such a pair of steps keeps areas, and keeps θ² + ψ² − ηθψ exactly: the path lies on an ellipse for ever. It no longer leaves, but it does not arrive either.",
  },
  {
    ask: "Why does extragradient come in?",
    set: { game: "bilinear", strategies: ["joint", "extragradient"], rate: 0.3, momentum: 0, steps: "1:1", length: 100, speed: 3 },
    say: "It tries the step of joint (dashed), reads the gradient at that place, goes back and steps along it. The gradient one step ahead has already turned further round, so it points inwards: each step multiplies the distance by √(1 − η² + η⁴), less than 1 as long as η < 1. The price is two gradients per step.",
  },
  {
    ask: "What does lookahead do?",
    set: { game: "bilinear", strategies: ["joint", "lookahead"], rate: 0.3, momentum: 0, steps: "1:1", length: 100, speed: 20 },
    say: "Five ordinary steps of joint, out along the spiral; then both networks go back by a share of the way, along the chord. A chord passes closer to the middle than the arc, and that more than pays for the five steps out. With α = 1 nothing is pulled back, and lookahead is joint.",
  },
  {
    ask: "What does momentum do?",
    set: { game: "bilinear", strategies: ["joint", "detach"], rate: 0.4, momentum: -0.5, steps: "1:1", length: 100, speed: 20 },
    say: "Momentum keeps the old direction while the arrows turn, so a positive β throws the weights outwards: try 0.5. A negative one is a brake that knows which way the game turns: at β = −0.5 alternating descent comes in on the bilinear game, where no β ≥ 0 does (Gidel et al. 2019); simultaneous descent still does not.",
  },
  {
    ask: "What does d_steps = 5 do?",
    set: { game: "gaussians", strategies: ["joint", "detach"], rate: 0.1, momentum: 0, steps: "5:1", length: 100, speed: 20 },
    say: "D comes close to its best answer before G moves. Where D's loss is curved, as here, five steps brake five times, and both come in sooner than with 1 : 1. On the bilinear game there is nothing to brake: five steps of D are one that is five times as long, and detach goes on round a narrower ellipse.",
  },
  {
    ask: "Why does overlap help?",
    set: { game: "gaussians", strategies: ["joint", "detach", "extragradient"], rate: 0.2, momentum: 0, steps: "1:1", length: 100, speed: 20 },
    say: "Once data and fakes overlap, a steeper D is wrong about more and more of the points, so its loss pulls ψ back to 0. Even joint comes in, as long as η < 2σ² = 0.5. Set η to 0.7: the steps are then too long for the brake, and joint spirals out again. Extragradient does not.",
  },
  {
    ask: "Does the original loss help?",
    set: { game: "dirac", strategies: ["joint", "detach", "extragradient", "lookahead"], rate: 0.3, momentum: 0, steps: "1:1", length: 400, speed: 100 },
    say: "Near the solution the Dirac-GAN is the bilinear game with half the gradient: joint leaves, detach goes round, extragradient and lookahead come in, only more slowly. Far out, where ψθ is very negative, the gradient vanishes: that is the saturation that made people change G's loss.",
  },
  {
    ask: "All of them, please",
    set: { game: "bilinear", strategies: null, rate: 0.2, momentum: 0, steps: "1:1", length: 200, speed: 20, apart: true },
    say: "The same start, the same game, the same learning rate; what differs is who moves when, and from where the gradient is taken.",
  },
];
