// One training step of a tiny GPT in plain CUDA, in the manner of llm.c: embeddings, a block of layer norm, attention
// and a two-layer network with GELU, the cross entropy, all of their gradients, AdamW. The same step in double on the
// host is the judge; every parameter after the step, every gradient and the loss have to agree with it.
//
// Each operator is one function template over the type of number: a kernel calls it for the items of its grid, the host
// in loops. What is tested is the device's execution of it; that the gradients are right is shown by differences of the
// loss on the host.
#include "samples/sample.cuh"

namespace {

constexpr int B = 2, T = 8, C = 16, H = 2, D = C / H, V = 27, F = 4 * C;
constexpr int rows = B * T;

// Where each tensor lies among the parameters, and its gradient among the gradients.
enum Place : int {
  wte = 0,
  wpe = wte + V * C,
  ln1_w = wpe + T * C,
  ln1_b = ln1_w + C,
  qkv_w = ln1_b + C,
  qkv_b = qkv_w + 3 * C * C,
  proj_w = qkv_b + 3 * C,
  proj_b = proj_w + C * C,
  ln2_w = proj_b + C,
  ln2_b = ln2_w + C,
  fc_w = ln2_b + C,
  fc_b = fc_w + F * C,
  out_w = fc_b + F,
  out_b = out_w + C * F,
  lnf_w = out_b + C,
  lnf_b = lnf_w + C,
  parameters = lnf_b + C,
};
// Activations, and their gradients.
enum Activation : int {
  x0 = 0,
  n1 = x0 + rows * C,
  qkv = n1 + rows * C,
  att = qkv + rows * 3 * C,
  mixed = att + B * H * T * T,
  x1 = mixed + rows * C,
  n2 = x1 + rows * C,
  hidden = n2 + rows * C,
  active = hidden + rows * F,
  x2 = active + rows * F,
  nf = x2 + rows * C,
  prob = nf + rows * C,
  losses = prob + rows * V,
  activations = losses + rows,
};

template <class N>
struct Step {
  N *p, *g;  // parameters, gradients
  N *a, *d;  // activations, their gradients
  N *m, *v;  // moments
  const int *tokens, *targets;

  __host__ __device__ void embed(int i) const {
    const int row = i / C, c = i % C;
    a[x0 + i] = p[wte + tokens[row] * C + c] + p[wpe + row % T * C + c];
  }
  __host__ __device__ void norm(int in, int weight, int bias, int out, int row) const {
    N mean = 0, spread = 0;
    for (int c = 0; c < C; ++c) mean += a[in + row * C + c] / C;
    for (int c = 0; c < C; ++c) spread += (a[in + row * C + c] - mean) * (a[in + row * C + c] - mean) / C;
    const N scale = 1 / sqrt(spread + N(1e-5));
    for (int c = 0; c < C; ++c)
      a[out + row * C + c] = (a[in + row * C + c] - mean) * scale * p[weight + c] + p[bias + c];
  }
  // out[row, o] = bias[o] + sum of in[row, i] weight[o, i] (+ what is carried past it)
  __host__ __device__ void linear(int in, int weight, int bias, int out, int inputs, int outputs, int carried,
                                  int i) const {
    const int row = i / outputs, o = i % outputs;
    N sum = p[bias + o];
    for (int k = 0; k < inputs; ++k) sum += a[in + row * inputs + k] * p[weight + o * inputs + k];
    a[out + i] = carried < 0 ? sum : sum + a[carried + i];
  }
  __host__ __device__ void attend(int i) const {  // one query of one head
    const int b = i / (H * T), h = i / T % H, t = i % T;
    N* weights = a + att + i * T;
    const N *q = a + qkv + (b * T + t) * 3 * C + h * D, *k = a + qkv + b * T * 3 * C + C + h * D, *values = k + C;
    N highest = -1e9, total = 0;
    for (int s = 0; s <= t; ++s) {
      N score = 0;
      for (int e = 0; e < D; ++e) score += q[e] * k[s * 3 * C + e] / sqrt(N(D));
      weights[s] = score;
      highest = score > highest ? score : highest;
    }
    for (int s = 0; s <= t; ++s) total += weights[s] = exp(weights[s] - highest);
    for (int s = 0; s < T; ++s) weights[s] = s <= t ? weights[s] / total : N(0);
    for (int e = 0; e < D; ++e) {
      N sum = 0;
      for (int s = 0; s <= t; ++s) sum += weights[s] * values[s * 3 * C + e];
      a[mixed + (b * T + t) * C + h * D + e] = sum;
    }
  }
  static __host__ __device__ N bend(N x) { return tanh(N(0.7978845608028654) * (x + N(0.044715) * x * x * x)); }
  __host__ __device__ void gelu(int i) const {
    const N x = a[hidden + i];
    a[active + i] = x / 2 * (1 + bend(x));
  }
  __host__ __device__ void classify(int row) const {
    N highest = -1e9, total = 0;
    N* out = a + prob + row * V;
    for (int w = 0; w < V; ++w) {
      N sum = 0;
      for (int c = 0; c < C; ++c) sum += a[nf + row * C + c] * p[wte + w * C + c];
      out[w] = sum;
      highest = sum > highest ? sum : highest;
    }
    for (int w = 0; w < V; ++w) total += out[w] = exp(out[w] - highest);
    for (int w = 0; w < V; ++w) out[w] /= total;
    a[losses + row] = -log(out[targets[row]]);
  }

  // Gradients. Those of parameters are added up by one item a parameter, in the order of rows: no atomics, one result.
  __host__ __device__ N logit_gradient(int row, int w) const {
    return (a[prob + row * V + w] - (w == targets[row] ? N(1) : N(0))) / rows;
  }
  __host__ __device__ void classify_back(int i) const {
    const int row = i / C, c = i % C;
    N sum = 0;
    for (int w = 0; w < V; ++w) sum += logit_gradient(row, w) * p[wte + w * C + c];
    d[nf + i] = sum;
  }
  __host__ __device__ void norm_back(int in, int weight, int out, int carried, int row) const {
    N mean = 0, spread = 0, sum = 0, product = 0;
    for (int c = 0; c < C; ++c) mean += a[in + row * C + c] / C;
    for (int c = 0; c < C; ++c) spread += (a[in + row * C + c] - mean) * (a[in + row * C + c] - mean) / C;
    const N scale = 1 / sqrt(spread + N(1e-5));
    for (int c = 0; c < C; ++c) {
      const N wanted = d[out + row * C + c] * p[weight + c];
      sum += wanted / C;
      product += wanted * (a[in + row * C + c] - mean) * scale / C;
    }
    for (int c = 0; c < C; ++c) {
      const N normed = (a[in + row * C + c] - mean) * scale;
      const N change = (d[out + row * C + c] * p[weight + c] - sum - normed * product) * scale;
      d[in + row * C + c] = change + (carried < 0 ? N(0) : d[carried + row * C + c]);
    }
  }
  __host__ __device__ void norm_parameters_back(int in, int weight, int bias, int out, int c) const {
    N of_weight = 0, of_bias = 0;
    for (int row = 0; row < rows; ++row) {
      N mean = 0, spread = 0;
      for (int k = 0; k < C; ++k) mean += a[in + row * C + k] / C;
      for (int k = 0; k < C; ++k) spread += (a[in + row * C + k] - mean) * (a[in + row * C + k] - mean) / C;
      of_weight += d[out + row * C + c] * (a[in + row * C + c] - mean) / sqrt(spread + N(1e-5));
      of_bias += d[out + row * C + c];
    }
    g[weight + c] = of_weight;
    g[bias + c] = of_bias;
  }
  __host__ __device__ void linear_back(int in, int weight, int out, int inputs, int outputs, int i) const {
    const int row = i / inputs, k = i % inputs;
    N sum = 0;
    for (int o = 0; o < outputs; ++o) sum += d[out + row * outputs + o] * p[weight + o * inputs + k];
    d[in + i] = sum;
  }
  __host__ __device__ void linear_parameters_back(int in, int weight, int bias, int out, int inputs, int outputs,
                                                  int i) const {
    const int o = i / inputs, k = i % inputs;
    N sum = 0, of_bias = 0;
    for (int row = 0; row < rows; ++row) {
      sum += d[out + row * outputs + o] * a[in + row * inputs + k];
      of_bias += d[out + row * outputs + o];
    }
    g[weight + i] = sum;
    if (k == 0) g[bias + o] = of_bias;
  }
  __host__ __device__ void gelu_back(int i) const {
    const N x = a[hidden + i], t = bend(x);
    const N slope = (1 + t) / 2 + x / 2 * (1 - t * t) * N(0.7978845608028654) * (1 + 3 * N(0.044715) * x * x);
    d[hidden + i] = d[active + i] * slope;
  }
  // Of one key and value of one head, and of the query at the same place.
  __host__ __device__ void attend_back(int i) const {
    const int b = i / (H * T), h = i / T % H, t = i % T;
    const auto at = [&](int place, int part, int e) { return (b * T + place) * 3 * C + part * C + h * D + e; };
    const auto score_gradient = [&](int query, int key) {  // of the score, before the softmax
      const N* weights = a + att + ((b * H + h) * T + query) * T;
      N mean = 0, mine = 0;
      for (int s = 0; s <= query; ++s) {
        N dot = 0;
        for (int e = 0; e < D; ++e) dot += d[mixed + (b * T + query) * C + h * D + e] * a[qkv + at(s, 2, e)];
        mean += weights[s] * dot;
        if (s == key) mine = dot;
      }
      return weights[key] * (mine - mean) / sqrt(N(D));
    };
    for (int e = 0; e < D; ++e) {
      N of_query = 0, of_key = 0, of_value = 0;
      for (int s = 0; s <= t; ++s) of_query += score_gradient(t, s) * a[qkv + at(s, 1, e)];
      for (int s = t; s < T; ++s) {
        of_key += score_gradient(s, t) * a[qkv + at(s, 0, e)];
        of_value += a[att + ((b * H + h) * T + s) * T + t] * d[mixed + (b * T + s) * C + h * D + e];
      }
      d[qkv + at(t, 0, e)] = of_query;
      d[qkv + at(t, 1, e)] = of_key;
      d[qkv + at(t, 2, e)] = of_value;
    }
  }
  __host__ __device__ void embed_back(int i) const {  // the words' table is the classifier's, too
    const int w = i / C, c = i % C;
    N sum = 0;
    for (int row = 0; row < rows; ++row) {
      sum += logit_gradient(row, w) * a[nf + row * C + c];
      if (tokens[row] == w) sum += d[x0 + row * C + c];
    }
    g[wte + i] = sum;
    if (w < T) {
      N of_place = 0;
      for (int b = 0; b < B; ++b) of_place += d[x0 + (b * T + w) * C + c];
      g[wpe + i] = of_place;
    }
  }
  __host__ __device__ void adamw(int i) const {
    m[i] = N(0.9) * m[i] + N(0.1) * g[i];
    v[i] = N(0.999) * v[i] + N(0.001) * g[i] * g[i];
    const N first = m[i] / (1 - N(0.9)), second = v[i] / (1 - N(0.999));
    p[i] -= N(0.01) * (first / (sqrt(second) + N(1e-4)) + N(0.1) * p[i]);
  }
};

template <class Item>
__global__ void each(Item item, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) item(i);
}

struct OnDevice {
  template <class Item>
  void operator()(int count, const Item& item) const {
    each<<<blocks_for(count, 64), 64>>>(item, count);
    WORKS(cudaGetLastError());
  }
};

struct OnHost {
  template <class Item>
  void operator()(int count, const Item& item) const {
    for (int i = 0; i < count; ++i) item(i);
  }
};

#define EACH(count, call) run(count, [=] __host__ __device__(int i) { s.call; })

template <class N, class Run>
void forward(const Step<N> s, const Run& run) {
  EACH(rows * C, embed(i));
  EACH(rows, norm(x0, ln1_w, ln1_b, n1, i));
  EACH(rows * 3 * C, linear(n1, qkv_w, qkv_b, qkv, C, 3 * C, -1, i));
  EACH(B * H * T, attend(i));
  EACH(rows * C, linear(mixed, proj_w, proj_b, x1, C, C, x0, i));
  EACH(rows, norm(x1, ln2_w, ln2_b, n2, i));
  EACH(rows * F, linear(n2, fc_w, fc_b, hidden, C, F, -1, i));
  EACH(rows * F, gelu(i));
  EACH(rows * C, linear(active, out_w, out_b, x2, F, C, x1, i));
  EACH(rows, norm(x2, lnf_w, lnf_b, nf, i));
  EACH(rows, classify(i));
}

template <class N, class Run>
void backward(const Step<N> s, const Run& run) {
  EACH(rows * C, classify_back(i));
  EACH(C, norm_parameters_back(x2, lnf_w, lnf_b, nf, i));
  EACH(rows, norm_back(x2, lnf_w, nf, -1, i));
  EACH(C * F, linear_parameters_back(active, out_w, out_b, x2, F, C, i));
  EACH(rows * F, linear_back(active, out_w, x2, F, C, i));
  EACH(rows * F, gelu_back(i));
  EACH(F * C, linear_parameters_back(n2, fc_w, fc_b, hidden, C, F, i));
  EACH(rows * C, linear_back(n2, fc_w, hidden, C, F, i));
  EACH(C, norm_parameters_back(x1, ln2_w, ln2_b, n2, i));
  EACH(rows, norm_back(x1, ln2_w, n2, x2, i));
  EACH(C * C, linear_parameters_back(mixed, proj_w, proj_b, x1, C, C, i));
  EACH(rows * C, linear_back(mixed, proj_w, x1, C, C, i));
  EACH(B * H * T, attend_back(i));
  EACH(3 * C * C, linear_parameters_back(n1, qkv_w, qkv_b, qkv, C, 3 * C, i));
  EACH(rows * C, linear_back(n1, qkv_w, qkv, C, 3 * C, i));
  EACH(C, norm_parameters_back(x0, ln1_w, ln1_b, n1, i));
  EACH(rows, norm_back(x0, ln1_w, n1, x1, i));
  EACH(V * C, embed_back(i));
}

template <class N, class Run>
void update(const Step<N> s, const Run& run) {
  EACH(parameters, adamw(i));
}

double mean_loss(const double* a) {
  double sum = 0;
  for (int row = 0; row < rows; ++row) sum += a[losses + row] / rows;
  return sum;
}

// A gradient of the host against the difference of two losses: that what the device is held against is right.
void check_by_differences(Step<double> s) {
  for (int i = 0; i < parameters; i += 97) {
    const double before = s.p[i], step = 1e-5;
    double loss[2];
    for (int side = 0; side < 2; ++side) {
      s.p[i] = before + (side == 0 ? step : -step);
      forward(s, OnHost{});
      loss[side] = mean_loss(s.a);
    }
    s.p[i] = before;
    HOLDS(std::abs((loss[0] - loss[1]) / (2 * step) - s.g[i]) < 1e-7);
  }
  forward(s, OnHost{});
}

}  // namespace

int main() {
  std::vector<int> tokens, targets;
  std::mt19937 engine(5);
  for (int row = 0; row < rows; ++row) {
    tokens.push_back(static_cast<int>(engine() % V));
    targets.push_back(static_cast<int>(engine() % V));
  }
  auto start = random_values<float>(parameters, -0.2, 0.2);
  for (const int weight : {ln1_w, ln2_w, lnf_w})
    for (int c = 0; c < C; ++c) start[weight + c] += 1;

  std::vector<double> p(start.begin(), start.end()), g(parameters), a(activations), d(activations), m(parameters),
      v(parameters);
  const Step<double> host{p.data(), g.data(), a.data(), d.data(), m.data(), v.data(), tokens.data(), targets.data()};
  forward(host, OnHost{});
  backward(host, OnHost{});
  check_by_differences(host);
  const double loss_before = mean_loss(a.data());
  update(host, OnHost{});

  DeviceArray<float> device_p(start), device_g(parameters), device_a(activations), device_d(activations);
  const std::vector<float> zeros(parameters);
  DeviceArray<float> device_m(zeros), device_v(zeros);
  DeviceArray<int> device_tokens(tokens), device_targets(targets);
  const Step<float> device{device_p, device_g, device_a, device_d, device_m, device_v, device_tokens, device_targets};
  forward(device, OnDevice{});
  backward(device, OnDevice{});
  finish();
  const auto ours = device_a.host(), gradients = device_g.host();
  // Sums of at most 64 terms, a dozen operators deep.
  constexpr double roundings = 64 * 12;
  for (int row = 0; row < rows; ++row) HOLDS(close(ours[losses + row], a[losses + row], roundings));
  std::printf("CASE forward: the losses of all rows, mean %.6f\n", loss_before);
  for (int i = 0; i < parameters; ++i) HOLDS(close(gradients[i], g[i], roundings));
  std::printf("CASE backward: the gradients of %d parameters\n", static_cast<int>(parameters));
  update(device, OnDevice{});
  finish();
  const auto updated = device_p.host();
  // A gradient's error is divided by the gradient's size, or by AdamW's epsilon.
  for (int i = 0; i < parameters; ++i)
    HOLDS(std::abs(updated[i] - p[i]) <= 0.01 * roundings * 0x1p-24 / (std::abs(g[i]) + 1e-4) + 4 * 0x1p-24);
  forward(host, OnHost{});
  HOLDS(mean_loss(a.data()) < loss_before);
  std::printf("CASE AdamW: all parameters, and the loss falls to %.6f\n", mean_loss(a.data()));
}
